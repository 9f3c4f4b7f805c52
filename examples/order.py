"""A durable function, to start from: what it has done is in .stepfast/stepfast.db."""

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
