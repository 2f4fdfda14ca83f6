"""BibTeX of the papers that the losses come from, for model cards."""

from __future__ import annotations

from gradlab.losses.base import Loss

# Keyed by the papers that the losses name, without remarks such as ", Eq. 5".
BIBTEX = {
    "van den Oord et al. (2018)": """
@article{oord2018representation,
    title = {Representation Learning with Contrastive Predictive Coding},
    author = {van den Oord, Aaron and Li, Yazhe and Vinyals, Oriol},
    journal = {arXiv preprint arXiv:1807.03748},
    year = {2018},
}
""",
    "Zhang et al. (2022)": """
@inproceedings{zhang2022contrastive,
    title = {A Contrastive Framework for Learning Sentence Representations from Pairwise and Triple-wise Perspective in Angular Space},
    author = {Zhang, Yuhao and Zhu, Hongji and Wang, Yongliang and Xu, Nan and Li, Xiaobo and Zhao, Binqiang},
    booktitle = {Proceedings of the 60th Annual Meeting of the Association for Computational Linguistics},
    year = {2022},
}
""",
    "Nie et al. (2023)": """
@inproceedings{nie2023inadequacy,
    title = {On the Inadequacy of Optimizing Alignment and Uniformity in Contrastive Learning of Sentence Representations},
    author = {Nie, Zhijie and Zhang, Richong and Mao, Yongyi},
    booktitle = {International Conference on Learning Representations},
    year = {2023},
}
""",
    "Li et al. (2024)": """
@inproceedings{li2024towards,
    title = {Towards Better Understanding of Contrastive Sentence Representation Learning: A Unified Paradigm for Gradient},
    author = {Li, Mingxin and Zhang, Richong and Nie, Zhijie},
    booktitle = {Proceedings of the 62nd Annual Meeting of the Association for Computational Linguistics},
    year = {2024},
}
""",
    "Wang and Isola (2020)": """
@inproceedings{wang2020understanding,
    title = {Understanding Contrastive Representation Learning through Alignment and Uniformity on the Hypersphere},
    author = {Wang, Tongzhou and Isola, Phillip},
    booktitle = {International Conference on Machine Learning},
    year = {2020},
}
""",
    "Liu et al. (2021)": """
@inproceedings{liu2021learning,
    title = {Learning with Hyperspherical Uniformity},
    author = {Liu, Weiyang and Lin, Rongmei and Liu, Zhen and Xiong, Li and Sch{\\"o}lkopf, Bernhard and Weller, Adrian},
    booktitle = {International Conference on Artificial Intelligence and Statistics},
    year = {2021},
}
""",
    "Zbontar et al. (2021)": """
@inproceedings{zbontar2021barlow,
    title = {Barlow Twins: Self-Supervised Learning via Redundancy Reduction},
    author = {Zbontar, Jure and Jing, Li and Misra, Ishan and LeCun, Yann and Deny, St{\\'e}phane},
    booktitle = {International Conference on Machine Learning},
    year = {2021},
}
""",
    "Bardes et al. (2022)": """
@inproceedings{bardes2022vicreg,
    title = {{VICReg}: Variance-Invariance-Covariance Regularization for Self-Supervised Learning},
    author = {Bardes, Adrien and Ponce, Jean and LeCun, Yann},
    booktitle = {International Conference on Learning Representations},
    year = {2022},
}
""",
}


def citation(loss: Loss) -> str:
    """BibTeX of the paper that a loss comes from; of a loss of your own, what it names as its paper."""
    for paper, entry in BIBTEX.items():
        if loss.paper.startswith(paper):
            return entry
    return f"\n@misc{{{loss.name},\n    title = {{{loss.title}}},\n    note = {{{loss.paper}}},\n}}\n"
