"""What each component does: factorial, repairs taken apart, controls for dissipation, prediction.

The trainings are sweeps, `studies/sweeps/evidence/*.toml`, which `gradlab sweep` runs on an
encoder. The rows of a second regime, a linear head on cached embeddings, are committed and analysed
with them. What is claimed is fixed in ``contrasts.toml``; `analysis` judges it.
"""
