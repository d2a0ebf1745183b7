"""The contract of a place on an object store: a real S3 server on the loopback."""
import pytest
from corpora.store.places import Place
from corpora.errors import InputError

@pytest.mark.server
def test_x(s3_store: Place) -> None:
    s3_store.write("a/b", b"hello")
    assert s3_store.read("a/b") == b"hello"
    assert s3_store.sizes("") == {"a/b": 5}
    assert s3_store.size("a/b") == 5 and s3_store.size("a") is None
    try: s3_store.read("nope")
    except Exception as e: print(repr(e))
    try:
        with s3_store.create("half") as k:
            k.write(b"x"); raise KeyError
    except KeyError: pass
    print(s3_store.sizes(""))
    bad = Place(s3_store.address.replace("cloze-tests", "nobucket"))
    print(bad.sizes(""))
    try: bad.write("x", b"1")
    except Exception as e: print(repr(e))
    try: bad.write("x", b"1"*(1<<24))
    except Exception as e: print(repr(e))
    import urllib.request
    url="http://"+s3_store.address.split("override=")[1].split("&")[0]+"/moto-api/reset-auth"
    urllib.request.urlopen(urllib.request.Request(url, data=b"0", method="POST", headers={"Content-Type":"text/plain"})).read()
    try: s3_store.write("y", b"1")
    except Exception as e: print(repr(e))
    urllib.request.urlopen(urllib.request.Request(url, data=b"Infinity", method="POST", headers={"Content-Type":"text/plain"})).read()
    s3_store.write("y", b"1")
