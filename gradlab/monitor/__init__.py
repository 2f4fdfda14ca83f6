"""What is measured while an encoder trains, where it is written, and what it means."""
