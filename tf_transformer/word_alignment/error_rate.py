"""The alignment error rate (Och and Ney, 2003)."""

import dataclasses

from tf_transformer.word_alignment.pharaoh import Links, Reference


@dataclasses.dataclass
class ErrorRate:
    """Counts of the links of a text against a reference.

    With the links A, the sure links S of the reference and its sure and possible links P,

    precision = |A and P| / |A|     recall = |A and S| / |S|
    AER = 1 - (|A and S| + |A and P|) / (|A| + |S|)

    Attributes:
        links: |A|.
        sure: |S|.
        links_and_sure: |A and S|.
        links_and_possible: |A and P|.
    """

    links: int = 0
    sure: int = 0
    links_and_sure: int = 0
    links_and_possible: int = 0

    def add(self, links: Links, reference: Reference) -> None:
        """Counts the links of a sentence pair."""
        self.links += len(links)
        self.sure += len(reference.sure)
        self.links_and_sure += len(links & reference.sure)
        self.links_and_possible += len(links & (reference.sure | reference.possible))

    @property
    def precision(self) -> float:
        """The share of the links that are possible; 1 without links."""
        return self.links_and_possible / self.links if self.links else 1.0

    @property
    def recall(self) -> float:
        """The share of the sure links that were found; 1 without sure links."""
        return self.links_and_sure / self.sure if self.sure else 1.0

    @property
    def aer(self) -> float:
        """The alignment error rate, from 0 to 1; 0 without any links."""
        total = self.links + self.sure
        return 1.0 - (self.links_and_sure + self.links_and_possible) / total if total else 0.0
