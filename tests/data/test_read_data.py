"""Which reader reads which file."""

import pytest

import saddlery as sd
from saddlery.errors import InputError


def test_files_without_a_known_suffix_are_svmlight(tmp_path):
    path = tmp_path / "german.numer_scale"
    path.write_text("1 1:1\n-1 1:-1\n")
    assert sd.read_data(path).name == "german.numer_scale"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(InputError, match=r"scale:1: the label 'a,b' .* \(read as svmlight because of its name"):
        sd.read_data(path)


def test_bad_arguments(tmp_path):
    path = tmp_path / "a.svm"
    path.write_text("1 1:1\n")
    with pytest.raises(InputError, match="did you mean 'svmlight'"):
        sd.read_data(path, format="svmlite")
    with pytest.raises(InputError, match="positive whole number"):
        sd.read_data(path, n_features=0)
    with pytest.raises(InputError, match="is a directory"):
        sd.read_data(tmp_path)
    with pytest.raises(FileNotFoundError):
        sd.read_data(tmp_path / "nowhere.svm")


def test_repr(tmp_path):
    path = tmp_path / "a.svm"
    path.write_text("1 1:1\n")
    assert repr(sd.read_data(path)) == "Data(a: 1 x 1, CSR with 1 entries)"
