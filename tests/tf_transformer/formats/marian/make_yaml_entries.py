"""Writes `yaml_entries.json`: how yaml-cpp, which Marian uses, reads and writes odd vocabularies.

    apt-get install g++ libyaml-cpp-dev
    python -m tests.tf_transformer.formats.marian.make_yaml_entries

Made with yaml-cpp 0.7.0 of Debian 12.
"""

import json
import pathlib
import subprocess
import tempfile

from tests.tf_transformer.formats.marian.odd_vocabularies import ODD_PIECES, VOCABULARIES
from tf_transformer.formats.marian.yaml_vocabulary import write_entries

GOLDEN = pathlib.Path(__file__).with_name("yaml_entries.json")
# As Marian's default_vocab.cpp. Strings are written as hexadecimal digits.
PROGRAM = r"""
#include <yaml-cpp/yaml.h>
#include <fstream>
#include <iostream>
#include <iterator>

std::string digits(const std::string& text) {
  std::string out;
  for (unsigned char c : text) {
    out += "0123456789abcdef"[c / 16];
    out += "0123456789abcdef"[c % 16];
  }
  return out;
}

int main(int, char** arguments) {
  std::string mode = arguments[1];
  std::ifstream file(arguments[2], std::ios::binary);
  try {
    if (mode == "read") {
      YAML::Node vocabulary = YAML::Load(file);
      if (!vocabulary.IsMap()) throw std::runtime_error("no mapping");
      for (auto&& pair : vocabulary)
        std::cout << "-" << digits(pair.first.as<std::string>()) << " "
                  << pair.second.as<unsigned>() << "\n";
    } else {
      YAML::Node vocabulary;
      std::string piece;
      for (unsigned id = 0; std::getline(file, piece, '\0'); ++id)
        vocabulary.force_insert(piece, id);
      std::cout << vocabulary;
    }
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
"""


def main() -> None:
    """Compiles the program, runs it for each vocabulary and writes the file."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "entries.cpp").write_text(PROGRAM)
        program = folder / "entries"
        command = ["g++", "-o", program, folder / "entries.cpp", "-lyaml-cpp"]
        subprocess.run(command, check=True)
        golden = {name: read(program, folder, text) for name, text in VOCABULARIES.items()}
        (folder / "pieces").write_bytes(b"".join(x.encode() + b"\0" for x in ODD_PIECES))
        command = [program, "write", folder / "pieces"]
        written = subprocess.run(command, check=True, capture_output=True).stdout
        ours = write_entries(ODD_PIECES).encode()
        entries = {
            "read": golden,
            "written": written.hex(),
            "written here": ours.hex(),
            "read from what is written here": read(program, folder, ours),
        }
    GOLDEN.write_text(json.dumps(entries, indent=1, ensure_ascii=True) + "\n")


def read(program: pathlib.Path, folder: pathlib.Path, text: bytes) -> list[list] | None:
    """Returns pieces, as hexadecimal digits, and ids; None if yaml-cpp refuses the vocabulary."""
    (folder / "v.yml").write_bytes(text)
    done = subprocess.run([program, "read", folder / "v.yml"], capture_output=True, text=True)
    if done.returncode:
        return None
    lines = [line[1:].split(" ") for line in done.stdout.splitlines()]
    return [[piece, int(token_id)] for piece, token_id in lines]


if __name__ == "__main__":
    main()
