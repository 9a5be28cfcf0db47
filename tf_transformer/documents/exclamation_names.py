"""Names with an exclamation or a question mark, and the words with a capital that go on with them.

Before lower case, such a mark never ends a sentence. Before a capital it mostly does ("Yahoo! We
won."), so that the words must be known. `_` is a space.
"""

NAMES = (
    "Yahoo! Yum! YUM! Jeopardy! Joomla! Mamma_Mia! Moulin_Rouge! Oklahoma! Oliver! Hairspray! "
    "Kahoot! E! Guess? BOOM! Boom! POW! Yu-Gi-Oh! Love_Live! BanG_Dream! Chips_Ahoy! du-Ha! "
    "Tora! Therapy? Westward_Ho! Believe_It_or_Not!"
)
"""Names that go on with one of `NEXT_WORDS`; of "Saint-Louis-du-Ha! Ha!", the end is enough."""

NEXT_WORDS = (
    "News Finance Mail Sports Japan Answers Groups Messenger Search Music Weather Movies Maps "
    "Media Holdings Directory Labs Taiwan Korea Auctions Shopping Travel Brands China Restaurants "
    "Masters Champions Productions Project Extensions Framework Network Entertainment Online "
    "Studios Records Duel_Monsters Zexal ZEXAL VRAINS GX School_Idol Sunshine Superstar Girls_Band "
    "Museum Tora Ha Hotel The_Musical Das_Musical Le_Musical Il_Musical El_Musical"
)

NEXT_OF_ANY_NAME = (
    "Inc Corp Corporation Ltd Limited LLC PLC Plc plc GmbH S.A. S.p.A. S.r.l. N.V. B.V. Magazine "
    "Calcutta At_The_Disco Black_Emperor Here_We_Go_Again MTV_Raps Part_Deux"
)
"""Words that go on with any name of a capital and such a mark, such as the forms of companies."""
