import type { Dirent } from 'node:fs'
import { chmod, mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import { createServer, type Server } from 'node:net'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import test from 'ava'
import { gitCli } from '../../../activities/git/cli.ts'
import { FetchRefused } from '../../../activities/git/port.ts'
import { makeRepository } from '../../../activities/git/scratch.ts'
import { loopVolumes } from '../../../activities/volumes/loop.ts'
import { NoSpaceLeft } from '../../../lib/folders/no-space-left.ts'
import { startTicks } from '../../../lib/process-stat.ts'
import { noise } from '../../kit/bodies.ts'
import { gitBench, processesOf } from '../../kit/git/git-bench.ts'
import { startGitServer } from '../../kit/git/git-server.ts'

const bench = await gitBench()
const server = await startGitServer()
const git = gitCli({ scratch: bench.scratch })
const commit = 'a'.repeat(40)

/** Stands in for every service on this machine that must not be reached. */
let visits = 0
const inner: Server[] = []
const visited = (socket: { destroy(): void }) => {
  visits++
  socket.destroy()
}
for (const host of ['127.0.0.1', '::1']) {
  const listener = createServer(visited)
  const port = inner.length === 0 ? 0 : portOf(inner[0]!)
  const listening = await new Promise<boolean>(resolve => {
    listener.once('error', () => resolve(false))
    listener.listen(port, host, () => resolve(true))
  })
  if (listening) inner.push(listener)
}
const port = portOf(inner[0]!)

function portOf(listener: Server): number {
  return (listener.address() as { port: number }).port
}

test.after.always(async () => {
  for (const listener of inner) listener.close()
  await server.stop()
  await bench.close()
})

const closed = [
  ...[
    '127.0.0.1',
    '0',
    '0x7f.1',
    '2130706433',
    '017700000001',
    '[::1]',
    '[::ffff:127.0.0.1]',
    '[::ffff:7f00:1]',
    'localhost',
  ],
  ...[
    'localhost.',
    '127。0。0。1',
    '①②⑦.⓪.⓪.①',
    '127.0.0.1.',
    '[::127.0.0.1]',
    '[64:ff9b::7f00:1]',
    '127.1',
    '0.0.0.0',
  ],
].map(host => `http://${host}:${port}/a.git`)

const elsewhere = [
  ...['169.254.169.254', '[fe80::a9fe:a9fe]', '[fd00:ec2::254]', '10.0.0.1', '172.16.0.1', '192.168.0.1', '100.64.0.1'],
  ...['127.0.0.1:5432', '1.1.1.1:22', '[::]:80'],
].map(host => `http://${host}/latest/meta-data`)

const noAddress = [
  ...[
    'file:///etc/passwd',
    'gopher://127.0.0.1/',
    'git://127.0.0.1/a',
    'ssh://127.0.0.1/a',
    'ext::sh -c id',
    '/etc',
    '',
  ],
  ...[
    `http://user@127.0.0.1:${port}/a`,
    `http://example.com#@127.0.0.1:${port}/`,
    `http://example.com\\@127.0.0.1:${port}/`,
  ],
  ...[
    '--upload-pack=touch /tmp/x',
    '-c',
    'http://h/a\u0000b',
    'http://h/ --upload-pack=id',
    `http://:p@127.0.0.1:${port}/`,
  ],
]

test('no address leads inside: the listener gets no connection', async t => {
  for (const url of [...closed, ...elsewhere, ...noAddress]) {
    const { error, paths } = await bench.fetch(git, { url, commit, timeoutSeconds: 5 })
    t.true(error instanceof FetchRefused && error.code === 'CLONE_FAILED', `${url}: ${error}`)
    t.deepEqual(paths, [])
  }
  t.is(visits, 0)
})

test('a name is resolved once, and later answers are not used', async t => {
  const asked: string[] = []
  const rebinding = (...answers: string[][]) =>
    gitCli({
      scratch: bench.scratch,
      resolve: async host => {
        asked.push(host)
        return answers.shift() ?? ['127.0.0.1']
      },
    })
  const url = `http://rebinds.example:${port}/a.git`
  const outside = await bench.fetch(rebinding(['192.31.196.1']), { url, commit, timeoutSeconds: 1 })
  t.false(outside.error === null)
  const mixed = await bench.fetch(rebinding(['1.1.1.1', '127.0.0.1']), { url, commit })
  t.is(mixed.error?.code, 'CLONE_FAILED')
  t.deepEqual(asked, ['rebinds.example', 'rebinds.example'])
  t.is(visits, 0)
})

test('git connects to the address that was checked', async t => {
  const repository = await server.repository()
  const pushed = await repository.push({ a: '1' })
  let asked = 0
  const pinned = gitCli({
    scratch: bench.scratch,
    resolve: async () => {
      asked++
      return ['127.0.0.1']
    },
  })
  // No name server knows this name: without the pin git would not get there.
  const host = `forge.example:${server.port}`
  const url = repository.url.replace(server.host, host)
  const fetched = await bench.fetch(pinned, { url, commit: pushed.commit, allowedHosts: [host] })
  t.is(fetched.error, null)
  t.deepEqual(fetched.paths, ['a'])
  t.is(asked, 1)
})

test('every redirect is checked, and carries no token to another server', async t => {
  const other = await startGitServer()
  t.teardown(() => other.stop())
  const target = await other.repository()
  const pushed = await target.push({ a: '1' })
  const question = '/info/refs?service=git-upload-pack'
  const redirects: Record<string, string> = {
    '/inside.git': `http://127.0.0.1:${port}/a.git${question}`,
    '/login.git': `${server.url}/login`,
    '/file.git': `file:///etc${question}`,
    '/loop.git': `${server.url}/loop.git${question}`,
    '/moved.git': `${target.url}${question}`,
    '/lured.git': `${(await other.repository({ private: true })).url}${question}`,
  }
  server.behaviour.redirect = path => redirects[path.split('/info')[0]!] ?? null
  const fetch = (name: string, allowedHosts = [server.host]) =>
    bench.fetch(git, { url: `${server.url}/${name}.git`, commit: pushed.commit, token: 'carried-token', allowedHosts })
  for (const name of ['inside', 'login', 'file', 'loop']) t.is((await fetch(name)).error?.code, 'CLONE_FAILED', name)
  t.is((await fetch('moved')).error?.code, 'CLONE_FAILED')
  t.is(other.requests.length, 0)
  t.deepEqual((await fetch('moved', [server.host, other.host])).paths, ['a'])
  t.is((await fetch('lured', [server.host, other.host])).error?.code, 'AUTHENTICATION_REQUIRED')
  t.true(other.requests.length > 0)
  t.deepEqual(
    other.requests.filter(({ authorization }) => authorization !== null),
    [],
  )
  t.is(visits, 0)
})

test('git itself follows no redirect', async t => {
  const repository = await server.repository()
  const pushed = await repository.push({ a: '1' })
  const path = new URL(repository.url).pathname
  let seen = 0
  server.behaviour.answer = (request, answer) => {
    // The first request is ours, the next one git's.
    if (!request.url?.startsWith(path) || ++seen === 1) return false
    answer.writeHead(302, { location: `http://127.0.0.1:${port}/a.git${request.url.slice(path.length)}` }).end()
    return true
  }
  const fetched = await bench.fetch(git, { url: repository.url, commit: pushed.commit, allowedHosts: [server.host] })
  server.behaviour.answer = () => false
  t.is(fetched.error?.code, 'CLONE_FAILED', fetched.error?.message)
  t.true(seen > 1)
  t.is(visits, 0)
})

/** Folders of other fetches vanish during the walk. */
async function scratchFiles(): Promise<Dirent[]> {
  for (;;)
    try {
      const entries = await readdir(bench.scratch, { recursive: true, withFileTypes: true })
      return entries.filter(entry => entry.isFile())
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
    }
}

test('while git runs, its token is in no argument, environment or file; a cancellation ends the whole group', async t => {
  const repository = await server.repository({ private: true })
  const pushed = await repository.push({ 'a.bin': noise(200_000) })
  server.behaviour.slow.set(repository.path, 30_000)
  const cancel = new AbortController()
  const request = { url: repository.url, commit: pushed.commit, token: server.token, allowedHosts: [server.host] }
  const fetching = bench.fetch(git, request, cancel.signal)
  const ours = () => processesOf(repository.url)
  for (let tries = 0; (await ours()).length < 3 && tries < 1000; tries++) await wait(50)
  const seen = await ours()
  t.true(seen.length >= 3, 'git, its http part and the packer')
  const secrets = [server.token, Buffer.from(`x-access-token:${server.token}`).toString('base64')]
  for (const { text } of seen) for (const secret of secrets) t.false(text.includes(secret))
  const files = await scratchFiles()
  t.true(files.length > 0)
  for (const { parentPath, name } of files) {
    const text = await readFile(join(parentPath, name), 'latin1').catch(() => '')
    for (const secret of secrets) t.false(text.includes(secret), name)
  }
  const from = Date.now()
  cancel.abort(new Error('cancelled'))
  const fetched = await fetching
  t.true(Date.now() - from < 20_000, 'ended, and not only done')
  t.is(fetched.error?.message, 'cancelled')
  t.deepEqual(await ours(), [])
  t.deepEqual(fetched.paths, [])
})

test('a download ends at its size cap and at its time limit', async t => {
  const repository = await server.repository()
  const pushed = await repository.push({ 'a.bin': noise(6_000_000) })
  const request = { url: repository.url, commit: pushed.commit, allowedHosts: [server.host] }
  const large = await bench.fetch(git, { ...request, maxBytes: 1_000_000 })
  t.is(large.error?.code, 'REPOSITORY_TOO_LARGE', large.error?.message)
  t.deepEqual(large.paths, [])
  server.behaviour.slow.set(repository.path, 2_000_000)
  const watched = await bench.fetch(git, { ...request, maxBytes: 1_000_000 })
  t.regex(watched.error?.message ?? '', /download is over 1 MB/)
  server.behaviour.slow.set(repository.path, 50_000)
  const slow = await bench.fetch(git, { ...request, timeoutSeconds: 2 })
  t.regex(slow.error?.message ?? '', /took over 2 s/)
  t.false(slow.error instanceof FetchRefused)
  t.deepEqual(await processesOf(repository.url), [])
})

const entry = (mode: string, name: string | Buffer, id: string) =>
  Buffer.concat([Buffer.from(`${mode} `), Buffer.from(name as string), Buffer.of(0), Buffer.from(id, 'hex')])

/** A repository with functions that store what git itself would not. */
async function oddTrees() {
  const repository = await server.repository({ files: { a: '1' } })
  const blob = await repository.git(['rev-parse', 'main:a'])
  const store = (...entries: Buffer[]) =>
    repository.git(['hash-object', '-t', 'tree', '-w', '--literally', '--stdin'], Buffer.concat(entries))
  /** A branch with this tree. */
  const commitOf = async (tree: string) => {
    const made = await repository.git(['commit-tree', '-m', 'x', tree])
    await repository.git(['update-ref', 'refs/heads/odd', made])
    return made
  }
  return { repository, blob, store, commitOf }
}

test('trees that git would not create are refused', async t => {
  const { repository, blob, store, commitOf } = await oddTrees()
  const inner = await store(entry('100644', 'x', blob))
  const trees = {
    'a name upwards': [entry('40000', '..', inner)],
    'a slash in a name': [entry('100644', '../../x', blob)],
    'the repository in other letters': [entry('40000', '.GIT', inner)],
    'one name twice': [entry('100644', 'a', blob), entry('100644', 'a', blob)],
    'a file that is a folder': [entry('120000', 'a', blob), entry('40000', 'a', inner)],
    'control characters': [entry('100644', 'a\nb', blob)],
    'no UTF-8': [entry('100644', Buffer.of(0x61, 0xff), blob)],
    'a long name': [entry('100644', 'x'.repeat(300), blob)],
  }
  for (const [name, entries] of Object.entries(trees)) {
    const made = await commitOf(await store(...entries))
    const fetched = await bench.fetch(git, { url: repository.url, commit: made, allowedHosts: [server.host] })
    t.is(
      fetched.error?.code,
      'CLONE_FAILED',
      `${name}: ${fetched.error?.message} ${fetched.paths} ${JSON.stringify(fetched.result)}`,
    )
    t.deepEqual(fetched.paths, [], name)
  }
})

test.serial('trees that list the same folders without end are refused, and not tried again', async t => {
  const { repository, blob, store, commitOf } = await oddTrees()
  const leaves = {
    'files that are left out': () => store(entry('100644', '.npmrc', blob)),
    submodules: () => store(entry('160000', 'm', commit)),
    'nothing at all': () => store(),
  }
  const short = gitCli({ scratch: bench.scratch, listSeconds: 2 })
  for (const [name, leaf] of Object.entries(leaves)) {
    let tree = await leaf()
    // 2^60 folders. The names of git's own trees are in order.
    for (let level = 0; level < 60; level++) tree = await store(entry('40000', 'a', tree), entry('40000', 'b', tree))
    const using = name === 'nothing at all' ? short : git
    const request = { url: repository.url, commit: await commitOf(tree), allowedHosts: [server.host] }
    const { error, paths } = await bench.fetch(using, request)
    t.is(error?.code, 'REPOSITORY_TOO_LARGE', `${name}: ${error?.message}`)
    t.regex(error?.message ?? '', name === 'nothing at all' ? /took over 2 s/ : /over 200000 files/)
    t.deepEqual(paths, [])
  }
})

test('a name of megabytes is refused before it was read', async t => {
  const { repository, blob, store, commitOf } = await oddTrees()
  // Left out by its name, so that nothing else refuses it.
  const tree = await store(entry('40000', 'node_modules', await store(entry('100644', 'x'.repeat(2_000_000), blob))))
  const request = { url: repository.url, commit: await commitOf(tree), allowedHosts: [server.host] }
  const { error } = await bench.fetch(git, request)
  t.is(error?.code, 'CLONE_FAILED', error?.message)
  t.regex(error?.message ?? '', /a name over 4096 bytes/)
})

test('a tree of 2,000 nested folders is refused', async t => {
  const repository = await server.repository()
  const head = 'commit refs/heads/deep\ncommitter P <p@e.x> 1 +0000\ndata 1\nm\n'
  const files = `M 644 inline ${'d/'.repeat(2000)}f\ndata 1\nx\n`
  await repository.git(['fast-import', '--quiet'], head + files)
  const deep = await repository.git(['rev-parse', 'deep'])
  const request = { url: repository.url, branch: 'deep', commit: deep, allowedHosts: [server.host] }
  const { error, paths } = await bench.fetch(git, request)
  t.is(error?.code, 'CLONE_FAILED', error?.message)
  t.regex(error?.message ?? '', /a name that cannot be a file here: d\/d/)
  t.deepEqual(paths, [])
})

test('a full volume is reported, and the folder is emptied', async t => {
  const volumes = loopVolumes(join(bench.scratch, '..', 'volumes'))
  await volumes.ensure('full', 16, bench.owner!.uid)
  t.teardown(() => volumes.remove('full'))
  const repository = await server.repository()
  const pushed = await repository.push({ 'a.bin': noise(14_000_000), 'b.bin': noise(5_000_000) })
  const folder = join(volumes.path('full'), 'files')
  const request = { url: repository.url, commit: pushed.commit, folder, allowedHosts: [server.host] }
  const fetched = await bench.fetch(git, { ...request, maxBytes: 50_000_000 })
  t.true(fetched.error instanceof NoSpaceLeft, String(fetched.error))
  t.deepEqual(await readdir(folder), [])
})

test('a repository that cannot be made is removed again', async t => {
  const scratch = join(bench.scratch, '..', 'half')
  // No group may have this id: its files cannot be given away.
  await t.throwsAsync(makeRepository(scratch, '', { uid: -1.5, gid: -1.5 }))
  t.deepEqual(await readdir(scratch), [])
})

test('leftovers of a killed process are removed at the next start, and an old git is reported', async t => {
  const scratch = join(bench.scratch, '..', 'left')
  const own = `berth-git-${process.pid}-${startTicks(process.pid)}-y`
  // As an older version names it, whose processes go on while they are replaced.
  const older = `berth-git-${process.ppid}-y`
  // The last one had the id of this process, in a container that was started again.
  const abandoned = ['berth-git-4194999-123-x', 'berth-git-4194999-y', `berth-git-${process.pid}-123-y`]
  for (const name of [own, older, ...abandoned]) await mkdir(join(scratch, name), { recursive: true })
  const old = join(scratch, 'git')
  await writeFile(old, '#!/bin/sh\necho git version 2.30.2\n')
  await chmod(old, 0o755)
  const fetched = await bench.fetch(gitCli({ scratch, git: old }), { url: server.url, commit })
  t.regex(fetched.error?.message ?? '', /2\.37 or later is needed.*2\.30\.2/)
  t.deepEqual((await readdir(scratch)).sort(), [own, older, 'git'].sort())
})
