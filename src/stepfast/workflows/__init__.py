"""Ways of writing a workflow. So far: durable functions."""
