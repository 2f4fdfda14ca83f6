"""gradlab inside other people's training: sentence-transformers, the Hugging Face Trainer, plain PyTorch loops."""
