"""Browser: a headless Chromium that a test drives, by the DevTools protocol over two pipes; needs no package.

Faults of a page (an exception, an error on the console, a request for anything but the page) are in `complaints`.
"""
import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

NAMES = ('chromium-headless-shell', 'chrome-headless-shell', 'chromium', 'chromium-browser', 'google-chrome')
LIMIT_S = 30  # of one answer


def find():
    """The program, by $CHROMIUM or the usual names; None: there is none."""
    named = os.environ.get('CHROMIUM')
    return shutil.which(named) if named else next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    def __init__(self, program):
        self.folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        self.waiting, self.number, self.buffer = [], 0, b''
        self.complaints = []
        theirs_in, self.ours_out = os.pipe()
        self.ours_in, theirs_out = os.pipe()
        # The browser reads descriptor 3 and writes 4; here any of these may be in use.
        high = [fcntl.fcntl(fd, fcntl.F_DUPFD, 20) for fd in (theirs_in, theirs_out)]

        def place():
            os.dup2(high[0], 3)
            os.dup2(high[1], 4)

        self.process = subprocess.Popen(
            [program, '--headless', '--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', '--no-first-run',
             '--remote-debugging-pipe', f'--user-data-dir={self.folder.name}', 'about:blank'],
            pass_fds=(3, 4), preexec_fn=place, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for fd in (theirs_in, theirs_out, *high):
            os.close(fd)
        target = self.call('Target.createTarget', url='about:blank')['targetId']
        self.session = self.call('Target.attachToTarget', targetId=target, flatten=True)['sessionId']
        for domain in ('Page', 'Runtime', 'Log', 'Network'):
            self.call(f'{domain}.enable')

    def close(self):
        self.process.terminate()
        self.process.wait()
        self.folder.cleanup()

    def message(self):
        deadline = time.monotonic() + LIMIT_S
        while b'\0' not in self.buffer:
            if not select.select([self.ours_in], [], [], max(0, deadline - time.monotonic()))[0]:
                raise TimeoutError('the browser does not answer')
            piece = os.read(self.ours_in, 1 << 20)
            if not piece:
                raise EOFError('the browser ended')
            self.buffer += piece
        line, self.buffer = self.buffer.split(b'\0', 1)
        return json.loads(line)

    def heed(self, event):
        """Remembers what a page must not do."""
        method, values = event.get('method'), event.get('params', {})
        if method == 'Runtime.exceptionThrown':
            details = values['exceptionDetails']
            self.complaints.append(details.get('exception', {}).get('description', details['text']))
        elif method == 'Runtime.consoleAPICalled' and values['type'] in ('error', 'warning', 'assert'):
            self.complaints.append(str([argument.get('value') for argument in values['args']]))
        elif method == 'Log.entryAdded' and values['entry']['level'] in ('error', 'warning'):
            self.complaints.append(values['entry']['text'])
        elif method == 'Network.requestWillBeSent':
            url = values['request']['url']
            if not url.startswith('data:') and url != getattr(self, 'address', None):
                self.complaints.append(f'asked for {url}')

    def call(self, method, **values):
        self.number += 1
        request = {'id': self.number, 'method': method, 'params': values}
        if hasattr(self, 'session'):
            request['sessionId'] = self.session
        data = json.dumps(request).encode() + b'\0'
        while data:
            data = data[os.write(self.ours_out, data):]
        while True:
            answer = self.message()
            if answer.get('id') == self.number:
                if 'error' in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer['result']
            self.waiting.append(answer.get('method'))
            self.heed(answer)

    def open(self, path):
        self.address = 'file://' + os.path.abspath(path)
        self.waiting.clear()
        self.call('Page.navigate', url=self.address)
        while 'Page.loadEventFired' not in self.waiting:
            event = self.message()
            self.waiting.append(event.get('method'))
            self.heed(event)

    def run(self, script):
        """The value of a JavaScript expression, once it is there."""
        answer = self.call('Runtime.evaluate', expression=script, returnByValue=True, awaitPromise=True, userGesture=True)
        if 'exceptionDetails' in answer:
            raise RuntimeError(f"{script}: {answer['exceptionDetails']['exception'].get('description')}")
        return answer['result'].get('value')

    def window(self, width, height=900, dark=False, media=''):
        self.call('Emulation.setDeviceMetricsOverride', width=width, height=height, deviceScaleFactor=1, mobile=width < 600)
        self.call('Emulation.setEmulatedMedia', media=media,
                  features=[{'name': 'prefers-color-scheme', 'value': 'dark' if dark else 'light'}])

    def point(self, x, y, click=False):
        self.call('Input.dispatchMouseEvent', type='mouseMoved', x=x, y=y)
        for kind in ('mousePressed', 'mouseReleased') if click else ():
            self.call('Input.dispatchMouseEvent', type=kind, x=x, y=y, button='left', clickCount=1)

    def picture(self, path, whole=False):
        options = {'captureBeyondViewport': True} if whole else {}
        if whole:
            size = self.call('Page.getLayoutMetrics')['cssContentSize']
            options['clip'] = {'x': 0, 'y': 0, 'width': size['width'], 'height': min(size['height'], 16000), 'scale': 1}
        with open(path, 'wb') as file:
            file.write(base64.b64decode(self.call('Page.captureScreenshot', **options)['data']))

    def pdf(self, path=None):
        data = base64.b64decode(self.call('Page.printToPDF', printBackground=True)['data'])
        if path:
            with open(path, 'wb') as file:
                file.write(data)
        return data
