import { once } from 'node:events'
import { createWriteStream } from 'node:fs'
import { chmod, chown, mkdir, mkdtemp, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import test, { type ExecutionContext } from 'ava'
import { ZipFile } from 'yazl'
import {
  appContainer,
  buildContainer,
  buildNetwork,
  type HostTraits,
  tenantNetwork,
} from '../../../activities/containers/spec.ts'
import type { Release } from '../../../activities/releases/release.ts'
import { withTimeout } from '../../../lib/async/timeout.ts'
import { withToolFolders } from '../../../policy/runtimes/tool-folders.ts'
import { type Language, runtimes } from '../../../policy/runtimes.ts'
import { realDocker } from '../../kit/servers/docker.ts'

/* Programs of each proven language, built and started in real containers exactly as a deployment does it. */
const { host, run, clean } = realDocker()
const root = await mkdtemp(`${tmpdir()}/berth-runtimes-`)
const traits: HostTraits = { id: run, runtime: 'runc', configNames: ['other.config'], buildProxy: null, caBundle: null }
const networks = [tenantNetwork('tenant', run), buildNetwork(run)]
const uid = 20_101

test.before(async () => {
  await chmod(root, 0o755)
  for (const network of networks) await host.ensureNetwork(network)
})
test.after.always(async () => {
  await clean(...networks.map(({ name }) => name))
  await rm(root, { recursive: true, force: true })
})

/** Writes a program, installs its dependencies, starts it; returns its address. */
async function deploy(
  t: ExecutionContext,
  language: Language,
  main: string,
  files: Record<string, string | Buffer>,
): Promise<string> {
  const runtime = runtimes[language]
  const appId = `${language}${Math.random().toString(36).slice(2, 8)}`
  const release: Release = {
    appId,
    ownerId: 'tenant',
    hostId: run,
    hostAddress: '127.0.0.1',
    number: 1,
    uid,
    ramMb: 512,
    reservedMb: 512,
    cpus: 1,
    diskMb: 100,
    language,
    runtimeVersion: runtime.recommended,
    main,
    start: null,
    hostname: 'x',
    source: null,
    path: '',
    restart: true,
    deploymentId: null,
  }
  const source = `${root}/${appId}`
  for (const [path, content] of Object.entries(files)) {
    await mkdir(dirname(`${source}/${path}`), { recursive: true })
    await writeFile(`${source}/${path}`, content)
  }
  for (const path of ['', ...(await readdir(source, { recursive: true }))]) await chown(`${source}/${path}`, uid, uid)
  const planned = runtime.install({ files: await readdir(source), main })
  const install = planned && runtime.toolFolders ? withToolFolders(planned, runtime.toolFolders) : planned
  let dependencies: string | null = null
  if (install) {
    const spec = buildContainer(release, source, install, traits)
    await host.ensureImage(spec.image)
    let output = ''
    const { exitCode } = await host.runToEnd(
      spec,
      text => {
        output += text
      },
      AbortSignal.timeout(120_000),
    )
    t.is(exitCode, 0, output)
    dependencies = `${root}/${appId}.dependencies`
    await rename(`${source}/${runtime.dependencies!.from}`, dependencies)
  }
  const spec = appContainer(release, { files: source, dependencies }, {}, traits)
  await host.ensureImage(spec.image)
  await host.create(spec)
  await host.start(spec.name)
  const url = `http://127.0.0.1:${(await host.inspect(spec.name))?.hostPort}`
  for (const end = Date.now() + 20_000; ; await sleep(50)) {
    // The engine accepts connections before the program does, and closes them: this client's promise may then never settle.
    const answer = await withTimeout(text(url), 1000, () => new Error('no answer')).catch(() => null)
    if (answer !== null) return url
    if (Date.now() > end) throw new Error(`It does not answer. Its log: ${await host.logs(spec.name, 4000)}`)
  }
}

const text = async (url: string): Promise<string> => (await fetch(url)).text()

test.serial('JavaScript without dependencies needs no build', async t => {
  const main = "require('http').createServer((q, s) => s.end('hello ' + process.version)).listen(process.env.PORT)"
  t.regex(await text(await deploy(t, 'javascript', 'index.js', { 'index.js': main })), /^hello v22\./)
})

test.serial('JavaScript with a dependency and a START of npm', async t => {
  const url = await deploy(t, 'javascript', 'index.mjs', {
    'package.json': JSON.stringify({ name: 'app', dependencies: { greeting: 'file:./greeting-1.0.0' } }),
    'greeting-1.0.0/package.json': JSON.stringify({ name: 'greeting', version: '1.0.0', main: 'index.js' }),
    'greeting-1.0.0/index.js': "module.exports = 'from a dependency'",
    'index.mjs':
      "import g from 'greeting'; import http from 'node:http'; http.createServer((q, s) => s.end(g)).listen(process.env.PORT)",
  })
  t.is(await text(url), 'from a dependency')
})

test.serial('TypeScript runs without a build, including enums', async t => {
  const main = `import { createServer } from 'node:http'
    enum Word { Hello = 'hello typed' }
    const port: number = Number(process.env.PORT)
    createServer((_, response) => response.end(Word.Hello)).listen(port)`
  t.is(await text(await deploy(t, 'typescript', 'main.ts', { 'main.ts': main })), 'hello typed')
})

test.serial('Python with a dependency', async t => {
  const url = await deploy(t, 'python', 'main.py', {
    'greeting-1.0-py3-none-any.whl': await wheel('greeting', "WORD = 'hello from a wheel'"),
    'requirements.txt': './greeting-1.0-py3-none-any.whl\n',
    'main.py': `import greeting, http.server as h, os
class H(h.BaseHTTPRequestHandler):
  def do_GET(self):
    self.send_response(200); self.end_headers(); self.wfile.write(greeting.WORD.encode())
h.HTTPServer(('', int(os.environ['PORT'])), H).serve_forever()`,
  })
  t.is(await text(url), 'hello from a wheel')
})

test.serial('Go is compiled, and only its program runs', async t => {
  t.timeout(300_000)
  const url = await deploy(t, 'go', 'cmd/web/main.go', {
    'go.mod': 'module shop\n\ngo 1.24\n',
    'words/words.go': 'package words\n\nconst Hello = "hello compiled"\n',
    'cmd/web/main.go': `package main

import (
	"net/http"
	"os"
	"shop/words"
)

func main() {
	http.ListenAndServe(":"+os.Getenv("PORT"), http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Write([]byte(words.Hello))
	}))
}
`,
  })
  t.is(await text(url), 'hello compiled')
})

test.serial('a static site has types, ranges and conditions, and serves nothing outside of the site', async t => {
  const url = await deploy(t, 'static', 'index.html', {
    'index.html': '<h1>olá</h1>',
    'about/index.html': 'about',
    'style.css': 'a{}',
    'data.bin': Buffer.from('0123456789'),
    '404.html': 'not here',
    'berth.app': 'MAIN=index.html',
    'other.config': 'MAIN=index.html',
    '.env': 'SECRET=1',
    '.git/config': 'x',
    '.well-known/acme': 'token',
  })
  const page = await fetch(url)
  t.is(page.headers.get('content-type'), 'text/html; charset=utf-8')
  t.is(await page.text(), '<h1>olá</h1>')
  t.is((await fetch(`${url}/style.css`)).headers.get('content-type'), 'text/css; charset=utf-8')
  t.is(await text(`${url}/about/`), 'about')
  t.is(await text(`${url}/about`), 'about')
  t.is(await text(`${url}/.well-known/acme`), 'token')
  for (const path of [
    '/berth.app',
    '/berth.config',
    '/other.config',
    '/.env',
    '/.git/config',
    '/nothing',
    '/%2e%65nv',
    '//berth.app',
  ]) {
    const answer = await fetch(url + path)
    t.is(answer.status, 404, path)
    t.is(await answer.text(), 'not here', path)
  }
  const etag = (await fetch(`${url}/data.bin`)).headers.get('etag') ?? ''
  t.is((await fetch(`${url}/data.bin`, { headers: { 'if-none-match': etag } })).status, 304)
  const part = await fetch(`${url}/data.bin`, { headers: { range: 'bytes=2-4' } })
  t.is(part.status, 206)
  t.is(await part.text(), '234')
})

/** A Python package ready to install, so that no package registry is needed. */
async function wheel(name: string, source: string): Promise<Buffer> {
  const zip = new ZipFile()
  const info = `${name}-1.0.dist-info`
  zip.addBuffer(Buffer.from(source), `${name}.py`)
  zip.addBuffer(Buffer.from(`Metadata-Version: 2.1\nName: ${name}\nVersion: 1.0\n`), `${info}/METADATA`)
  zip.addBuffer(
    Buffer.from('Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n'),
    `${info}/WHEEL`,
  )
  zip.addBuffer(Buffer.from(`${name}.py,,\n${info}/METADATA,,\n${info}/WHEEL,,\n${info}/RECORD,,\n`), `${info}/RECORD`)
  zip.end()
  const path = `${root}/${name}.whl`
  await once(zip.outputStream.pipe(createWriteStream(path)), 'close')
  return readFile(path)
}
