"""Texts that would do something in a browser, were they more than text."""

# Pictures, links, elements and diagrams, as Markdown and as HTML; each has the address that nothing may ask for.
HOSTILE = (
    "![a](http://127.0.0.1:9/1.png)",
    "![a][b] [b]: http://127.0.0.1:9/2.png",
    '<img src="http://127.0.0.1:9/3.png" onerror="fetch(\'http://127.0.0.1:9/\')">',
    "[a](http://127.0.0.1:9/4) <http://127.0.0.1:9/5> http://127.0.0.1:9/6 www.evil.example _www.evil.example",
    "somebody@evil.example mailto:somebody@evil.example ftp://evil.example/7",
    '<table background="http://127.0.0.1:9/8.png"><tr><td><a href="javascript:alert(1)">a</a></table>',
    "```mermaid\nflowchart TD\n a[<img src='http://127.0.0.1:9/9.png'>]\n```",
    "# a\n\n| a |\n|---|\n| b | &lt;b&gt; \\[a](http://127.0.0.1:9/10)",
)

TARGETS = ("127.0.0.1:9/", "evil.example", "javascript:", "mailto:")  # of what such a text would load or link to
