"""What tests share: processes to start, inputs to make, and peers that misbehave."""
