"""Li et al. (2024): figures of the theory, and the study of its three conjectures."""
