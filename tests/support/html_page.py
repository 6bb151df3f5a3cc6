"""What a page of HTML holds, for tests of reports."""

import json
from html.parser import HTMLParser

VOID = {"br", "meta", "wbr"}


class Page(HTMLParser):
    """What a page holds; a tag that is not closed in its turn is an error."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.attributes, self.numbers, self.texts = [], [], [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        self.numbers += [json.loads(value) for name, value in attrs if (tag, name) == ("data", "value")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)

    @property
    def text(self):
        return "".join(self.texts)

    def values(self, attribute):
        return [value for name, value in self.attributes if name == attribute]
