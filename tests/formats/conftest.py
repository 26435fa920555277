"""Generated tests do not depend on the speed of the machine; tests of bad events run on both ways of decoding."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, Phase, settings

from pyspark_pravega import native
from tests.formats.both_paths import reference_only
from tests.formats.fuzzing import COUNT

settings.register_profile(
    "any-speed",
    deadline=None,
    max_examples=max(25, COUNT // 200),
    # Without the tracing that explains failures, which takes minutes.
    phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("any-speed")


@pytest.fixture(scope="module", params=["native", "reference"])
def way_of_decoding(request: pytest.FixtureRequest) -> Iterator[str]:
    """Tests that use it run twice: with the native decoder and without."""
    if request.param == "reference":
        with reference_only():
            yield request.param
    elif native.get_status().active:
        yield request.param
    else:
        pytest.skip(f"there is no native decoder: {native.get_status().text}")
