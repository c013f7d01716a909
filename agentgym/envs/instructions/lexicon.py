"""Items listed in documents, with their names in four languages; no name has an accent, so sorting is unambiguous.

Replies may use other common names, with or without accents, so a policy that knows the language is never marked wrong.
"""

import unicodedata
from functools import lru_cache

LANGUAGES = ("English", "French", "German", "Spanish")
_NAMES = {
    "fruit": """
        apple pomme Apfel manzana
        pear poire Birne pera
        fig figue Feige higo
        orange orange Apfelsine naranja
        cherry cerise Kirsche cereza
        grape raisin Traube uva
        plum prune Pflaume ciruela
        strawberry fraise Erdbeere fresa
    """,
    "animal": """
        horse cheval Pferd caballo
        cow vache Kuh vaca
        dog chien Hund perro
        cat chat Katze gato
        bird oiseau Vogel ave
        fish poisson Fisch pez
        wolf loup Wolf lobo
        rabbit lapin Hase conejo
    """,
    "tool": """
        hammer marteau Hammer martillo
        axe hache Axt hacha
        nail clou Nagel clavo
        screw vis Schraube tornillo
        rope corde Seil cuerda
        shovel pelle Schaufel pala
        needle aiguille Nadel aguja
        bucket seau Eimer cubo
    """,
    "garment": """
        shirt chemise Hemd camisa
        skirt jupe Rock falda
        coat manteau Mantel abrigo
        hat chapeau Hut sombrero
        glove gant Handschuh guante
        shoe chaussure Schuh zapato
        dress robe Kleid vestido
        scarf foulard Schal bufanda
    """,
    "furniture": """
        table table Tisch mesa
        chair chaise Stuhl silla
        bed lit Bett cama
        bench banc Bank banco
        mirror miroir Spiegel espejo
        carpet tapis Teppich alfombra
        shelf rayon Regal estante
        desk bureau Pult escritorio
    """,
}
NAMES: dict[str, dict[str, str]] = {
    line.split()[0]: dict(zip(LANGUAGES, line.split(), strict=True))
    for text in _NAMES.values()
    for line in text.strip().splitlines()
}
"""English name -> name in each language."""
CATEGORIES: dict[str, tuple[str, ...]] = {
    category: tuple(line.split()[0] for line in text.strip().splitlines()) for category, text in _NAMES.items()
}
"""Category -> English names."""
_OTHER_NAMES = {
    "German": "orange Orange, grape Weintraube, plum Zwetschge, rabbit Kaninchen, axe Beil, rope Strick, shovel Spaten, "
    "bucket Kübel, scarf Halstuch, shelf Regalbrett, desk Schreibtisch",
    "French": "scarf écharpe, shelf étagère",
    "Spanish": "bird pájaro, fish pescado, strawberry frutilla, rope soga, bucket balde, bucket cubeta, carpet tapete, "
    "bench banca, shelf repisa, shelf estantería",
}
"""Other common names by language, each after the English one."""


@lru_cache(maxsize=1024)
def without_accents(text: str) -> str:
    """Return a text in lower case and without accents."""
    return "".join(mark for mark in unicodedata.normalize("NFD", text.lower()) if not unicodedata.combining(mark))


def _spellings() -> dict[tuple[str, str], tuple[str, ...]]:
    found = {(name, language): [NAMES[name][language].lower()] for name in NAMES for language in LANGUAGES}
    for language, names in _OTHER_NAMES.items():
        for name, other in (pair.split() for pair in names.split(", ")):
            found[name, language] += dict.fromkeys([other.lower(), without_accents(other)])
    return {place: tuple(spellings) for place, spellings in found.items()}


SPELLINGS = _spellings()
"""English name and language -> accepted names in lower case; the expert writes the first."""
