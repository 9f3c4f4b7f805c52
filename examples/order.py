"""A durable function: run it, kill it with Ctrl-C or kill -9, run it again."""

from stepfast import step, workflow


@step
def charge(cents: int) -> str:
    print("charging", cents)
    return f"receipt over {cents / 100:.2f}"


@workflow
def checkout(item: str, cents: int) -> str:
    return f"{item}: {charge(cents)}"


if __name__ == "__main__":
    print(checkout.run("teapot", 4_900))
