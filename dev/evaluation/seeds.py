"""Files of seeds: development and held-out ones are never mixed."""

from pathlib import Path

FOLDER = Path(__file__).parent / "seeds"
HELD_OUT = FOLDER / "held-out.txt"
DEVELOPMENT = FOLDER / "development.txt"


def read_seeds(path: Path) -> tuple[int, ...]:
    """Read one seed a line, # begins a comment. Raises ValueError for none, for doubles, for other text."""
    lines = (line.split("#")[0].strip() for line in path.read_text(encoding="utf-8").splitlines())
    seeds = tuple(int(line) for line in lines if line)
    if not seeds or len(set(seeds)) != len(seeds):
        raise ValueError(f"{path}: one or more different seeds are needed, got {len(seeds)}")
    return seeds
