"""The signs of each format: the bytes that mean something in it, with which fuzzing changes inputs."""

DOCTYPE = b'<!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/passwd"><!ENTITY c "&b;&b;">]>\n'


def _signs(words: str) -> tuple[bytes, ...]:
    """Bytes as Python writes them, one after another between blanks."""
    return tuple(word.encode().decode("unicode_escape").encode("latin-1") for word in words.split())


MARKUP = (
    DOCTYPE,
    *_signs(
        r"""
    < > </ /> & &#0; &#xD800; &b; <!-- --> <![CDATA[ ]]> \x00 \xff <a> </a> <p> </p> <? ?> \x20a=" &#x110000;
    \xef\xbf\xbe <!DOCTYPE\x20 \x20xmlns:a='b' <a: \xc2\x85
    """
    ),
)
WIKI = _signs(
    r"""
    {{ }} [[ ]] {| |} | <ref> <ref </ref> <nowiki> <math> ''' {{{ }}} \n* \n: \n# == \n==\x20a\x20==\n &nbsp; <!--
    --> {{convert| {{lang| [http:// \n|-\n \n{|\n [[File: -{ }- <gallery> </gallery> = {{val| \x00 {{birth\x20date|
    {{frac| __ <br> <div> </div> [ ] \x20 \xe2\x80\x8f ( ) () <span> </span> {{a|b= |- ! {{nowrap| <nowiki/> &lt;!--
    <table> <td>
    """
)
PAGE = _signs(
    r"""
    <page> </page> <text> </text> <revision> <id> <ns> <title> <redirect\x20title= <page\x20 <page/> <text/>
    </mediawiki> <mediawiki> </siteinfo> <base>
    """
)
HTML_SIGNS = _signs(
    r"""
    <table> <tr> <td> <div> </div> <ul><li> <article> <script> <style> <svg> <meta\x20charset=utf-7>
    <meta\x20charset= <title> <template> <br> <b> <select> <frameset> <h1> <blockquote> <time\x20datetime=
    <html\x20lang= <noscript>
    """
)
HEADS = _signs(
    r"""
    \r\n WARC/1.0 WARC/1.0\r\n \nWARC/1.0\r\n Content-Length:\x209\r\n \r\n\r\n chunked \x00
    HTTP/1.1\x20999\x20x\r\n WARC-Type:\x20conversion\r\n WARC-Target-URI:\x20http://[\r\n :\x20 0\r\n\r\n
    WARC-Truncated:\x20length\r\n Content-Encoding:\x20br\r\n WARC-Date:\x209999-12-31T23:59:59Z\r\n \xff
    fffffff\r\n HTTP/1.1\x20200\x20OK\r\n charset= charset=\xff utf-7 WARC/0.18 \n HTTP/
    """
)
BINARY = (
    b"\0" * 512,
    *_signs(
        r"""
    \x00 \xff \xff\xff\xff\xff ../ /etc/passwd PK\x03\x04 PK\x01\x02 PK\x05\x06 \x1f\x8b \x1f\x8b\x08\x00 BZh9
    BZh91AY&SY \xfd7zXZ\x00 (\xb5/\xfd PAR1 ustar\x0000 \x80\x00\x00\x00\x00\x00\x00\x01
    27\x20GNU.sparse.size=999999\n 13\x20size=9999\n 0777777\x00 22\x20size=-9\n
    """
    ),
)
LINES = _signs(
    r"""
    \n \r\n \r " "" , \t { } [ ] \\ud800 \x00 \xff \xef\xbb\xbf : \xff\xfe NaN -Infinity {"text": \xed\xa0\x80 \x85
    \xe2\x80\xa8 null "text":\x201 \\ {} [] {"data":[{"paragraphs":[ true \x1a \x20 \x0b \x1c
    """
)
BOOKISH = (
    b"-" * 70,
    *_signs(
        r"""
    ***\x20START\x20OF ***\x20END\x20OF *** CONTENTS\n CHAPTER\x20I\n [1] [Illustration:\x20 _ \n\n
    [Footnote\x201:\x20 [Transcriber's\x20note:\x20 Title:\x20 Release\x20date:\x20 [eBook\x20#
    \x20\x20\x20\x20\x20\x20 THE\x20END\n \xc2\xa9 \x92 www.gutenberg.org \x1a \x0c ( ] I.\x20 INDEX\n
    \x20.\x20.\x20.\x20.\x209\n \n\n\n\n\n [ * END\x20OF\x20THE\x20PROJECT\x20GUTENBERG By\x20 $1.50\x20net\n
    1.\x20\xc2\xb9
    """
    ),
)
OPF = (
    b"gutenberg.org/ebooks/" + b"9" * 5_000,
    *_signs(
        r"""
    <spine> <itemref\x20idref= <item\x20id= href="../../../etc/passwd" href="%2e%2e/a" # ? gutenberg.org/ebooks/
    full-path= <dc:title> <dc:identifier> http://www.gutenberg.org/files/99 <guide> epub:type= encoding="utf-7"
    encoding="utf-16"
    """
    ),
)
MAILISH = (
    *_signs(
        r"""
    \nFrom\x20a\n \n\nFrom\x20 Content-Type:\x20multipart/mixed;\x20boundary=b\n --b\n --b--\n =?utf-8?b? ?=
    Content-Transfer-Encoding:\x20base64\n charset= charset=rot13\n Date:\x20 Message-ID:\x20< @ Subject:\x20
    Content-Type:\x20 ; = charset=\xff =?\xff?q?=41?= Date:\x2099\x20Jan\x2099999\n
    """
    ),
    *LINES,
)
CODE = _signs(
    r"""
    ( ) [ ] { } ' " ''' \\ \n \x20 \x20\x20\x20\x20 : lambda: not\x20 - f'{ \x00 \xff #\x20coding:\x20rot13\n
    #\x20coding:\x20utf-7\n \x0c class\x20A:\n \x20def\x20f():\n \t \\N{ \\ud800 ** \xef\xbb\xbf if\x201:\n \r
    """
)
