"""The command line as a person uses it."""

from __future__ import annotations

import pytest
from experiment.swing import Command

from calibody import cli


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Command:
    def run(*arguments: object) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as caught:
            cli.main([str(a) for a in arguments])
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        return int(caught.value.code or 0), out, err

    return run
