"""The second round: what is tested, declared before training, and code that trains exactly that."""
