import { readFile, readlink, stat } from 'node:fs/promises'
import { userInfo } from 'node:os'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import type { ExecutionContext, TestFn } from 'ava'
import { FetchRefused, type FetchRequest, type Git } from '../../activities/git/port.ts'
import type { Fetched, GitBench } from '../kit/git/git-bench.ts'
import type { GitServer } from '../kit/git/git-server.ts'

export interface GitParts {
  git: Git
  bench: GitBench
  server: GitServer
}

/** The contract of everything that fetches from git servers. */
export function gitContract(test: TestFn, parts: () => GitParts): void {
  const fetch = (request: Partial<FetchRequest>, signal?: AbortSignal) => {
    const { git, bench, server } = parts()
    return bench.fetch(git, { allowedHosts: [server.host], ...request }, signal)
  }
  const refused = (t: ExecutionContext, fetched: Fetched, code: FetchRefused['code'], message?: RegExp) => {
    t.true(fetched.error instanceof FetchRefused, String(fetched.error))
    t.is(fetched.error?.code, code, fetched.error?.message)
    if (message) t.regex(fetched.error?.message ?? '', message)
    leftNothing(t, fetched)
  }
  const leftNothing = (t: ExecutionContext, { paths }: Fetched) => t.deepEqual(paths, [])

  test('the files of exactly the commit arrive, and belong to the application', async t => {
    const { server, bench } = parts()
    const repository = await server.repository()
    const first = await repository.push({ 'a.txt': 'one', 'src/b.sh': '#!/bin/sh\n' })
    await repository.push({ 'a.txt': 'two', 'late.txt': 'x' })
    const fetched = await fetch({ url: repository.url, commit: first.commit })
    t.is(fetched.error, null)
    t.deepEqual(fetched.paths, ['a.txt', 'src', 'src/b.sh'])
    t.deepEqual(fetched.result, { files: 2, bytes: 13 })
    t.is(await readFile(join(fetched.folder, 'a.txt'), 'utf8'), 'one')
    const { uid, mode } = await stat(join(fetched.folder, 'src/b.sh'))
    t.is(uid, bench.owner?.uid ?? userInfo().uid)
    t.is(mode & 0o7777, 0o644)
    t.true(fetched.lines.some(line => line.includes(first.commit.slice(0, 12))))
  })

  test('a commit that its branch no longer contains still arrives while the server has it', async t => {
    const repository = await parts().server.repository()
    await repository.push({ 'a.txt': 'base' })
    const replaced = await repository.push({ 'a.txt': 'one' })
    await repository.push({ 'a.txt': 'two' }, { force: true })
    const fetched = await fetch({ url: repository.url, commit: replaced.commit })
    t.is(await readFile(join(fetched.folder, 'a.txt'), 'utf8'), 'one')
  })

  test('a commit is found on a server that serves only branches', async t => {
    const repository = await parts().server.repository({ files: { 'a.txt': '0' } })
    const wanted = await repository.push({ 'a.txt': '1' })
    for (const text of ['2', '3']) await repository.push({ 'a.txt': text })
    // The oldest protocol, of servers before 2018, only serves the tips of branches.
    parts().server.behaviour.oldProtocol.add(repository.path)
    const fetched = await fetch({ url: repository.url, commit: wanted.commit })
    t.is(fetched.error, null)
    t.is(await readFile(join(fetched.folder, 'a.txt'), 'utf8'), '1')
    refused(t, await fetch({ url: repository.url, commit: 'c'.repeat(40) }), 'INVALID_BRANCH')
  })

  test('the same is left out as for uploads: dropped folders, submodules, links that lead outside', async t => {
    const repository = await parts().server.repository()
    const { commit } = await repository.push({
      'main.js': '1',
      'node_modules/x/index.js': 'x',
      'packages/a/node_modules/y.js': 'y',
      'target/debug': 'x',
      'src/target/kept.js': 'x',
      'links/inside': { link: '../main.js' },
      'links/absolute': { link: '/etc/passwd' },
      'links/outside': { link: '../../x' },
      'links/winding': { link: 'inside/../../..' },
      '.gitmodules': '[submodule "m"]\n\tpath = m\n\turl = ../m\n',
      '.gitattributes': '*.txt text eol=crlf\n*.bin filter=lfs\n*.id ident\n*.u16 working-tree-encoding=UTF-16\n',
      'crlf.txt': 'a\nb\n',
      'big.bin': 'version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n',
      'x.id': '$Id$\n',
      'x.u16': Buffer.from('\ufeffab', 'utf16le'),
      'grün/世.txt': 'x',
    })
    const fetched = await fetch({ url: repository.url, commit })
    t.is(fetched.error, null)
    t.deepEqual(
      fetched.paths,
      [
        ...['.gitattributes', '.gitmodules', 'big.bin', 'crlf.txt', 'grün', 'grün/世.txt', 'links', 'links/inside'],
        ...['main.js', 'src', 'src/target', 'src/target/kept.js', 'x.id', 'x.u16'],
      ].sort(),
    )
    t.is(await readlink(join(fetched.folder, 'links/inside')), '../main.js')
    t.is(await readFile(join(fetched.folder, 'crlf.txt'), 'utf8'), 'a\nb\n')
    t.regex(await readFile(join(fetched.folder, 'big.bin'), 'utf8'), /^version https/)
    t.is(await readFile(join(fetched.folder, 'x.id'), 'utf8'), '$Id$\n')
    t.is(await readFile(join(fetched.folder, 'x.u16'), 'utf8'), 'ab')
    t.is(fetched.lines.filter(line => line.includes('leads outside')).length, 3)
  })

  test('a missing repository, branch or commit has its code, and leaves nothing', async t => {
    const { server } = parts()
    const repository = await server.repository({ files: { a: '1' } })
    const commit = 'd'.repeat(40)
    refused(
      t,
      await fetch({ url: repository.url, commit }),
      'INVALID_BRANCH',
      /no commit dddddddddddd on the branch main/,
    )
    refused(t, await fetch({ url: repository.url, commit, branch: 'gone' }), 'INVALID_BRANCH')
    refused(t, await fetch({ url: repository.url, commit, branch: '../x' }), 'INVALID_BRANCH')
    refused(t, await fetch({ url: repository.url, commit, branch: '--upload-pack=id' }), 'INVALID_BRANCH')
    refused(t, await fetch({ url: repository.url, commit: '0'.repeat(40) }), 'INVALID_BRANCH')
    refused(t, await fetch({ url: repository.url, commit: '--upload-pack=id' }), 'INVALID_BRANCH')
    const tree = await repository.git(['rev-parse', 'main^{tree}'])
    refused(t, await fetch({ url: repository.url, commit: tree }), 'INVALID_BRANCH')
    refused(t, await fetch({ url: `${server.url}/no/such.git`, commit }), 'CLONE_FAILED', /no such repository/)
  })

  test('a private repository accepts its token, and a refused token ends the fetch', async t => {
    const { server } = parts()
    const repository = await server.repository({ private: true })
    const { commit } = await repository.push({ 'a.txt': 'secret' })
    const ask = (token: string | null) => fetch({ url: repository.url, commit, token })
    t.deepEqual((await ask(server.token)).paths, ['a.txt'])
    refused(t, await ask(null), 'AUTHENTICATION_REQUIRED', /requires an access token/)
    const wrong = await ask('not-the-token')
    refused(t, wrong, 'AUTHENTICATION_REQUIRED', /refused the access token/)
    t.false(JSON.stringify([wrong.error?.message, wrong.error?.stack, wrong.lines]).includes('not-the-token'))
  })

  test('sizes and counts have a cap', async t => {
    const { server } = parts()
    const zeros = await server.repository()
    const { commit: large } = await zeros.push({ 'zeros.bin': Buffer.alloc(25 * 1024 ** 2) })
    refused(t, await fetch({ url: zeros.url, commit: large }), 'REPOSITORY_TOO_LARGE', /take over 20 MB/)
    const many = await server.repository()
    const files = (count: number, folder: string) =>
      Array.from({ length: count }, (_, index) => `M 644 inline ${folder}/${index}\ndata 1\nx\n`).join('')
    const head = (branch: string) => `commit refs/heads/${branch}\ncommitter P <p@e.x> 1 +0000\ndata 1\nm\n`
    const crowds = { crowd: files(30_000, 'f'), packages: files(30_000, 'node_modules') + files(5, 'f') }
    for (const [branch, text] of Object.entries(crowds)) await many.git(['fast-import', '--quiet'], head(branch) + text)
    const tip = (branch: string) => many.git(['rev-parse', branch])
    const crowd = await fetch({ url: many.url, branch: 'crowd', commit: await tip('crowd') })
    refused(t, crowd, 'REPOSITORY_TOO_LARGE', /over 20000 files/)
    const packages = await fetch({ url: many.url, branch: 'packages', commit: await tip('packages') })
    t.is(packages.result?.files, 5)
  })

  test('a server that fails, hangs or is unreachable may be retried', async t => {
    const { server } = parts()
    const commit = 'e'.repeat(40)
    const healing = async (request: Partial<FetchRequest>, message: RegExp) => {
      const fetched = await fetch({ commit, timeoutSeconds: 2, ...request })
      t.false(fetched.error instanceof FetchRefused)
      t.regex(fetched.error?.message ?? '', message)
      leftNothing(t, fetched)
    }
    await healing({ url: `${server.url}/status-503/x.git` }, /HTTP 503/)
    await healing({ url: `${server.url}/status-429/x.git` }, /HTTP 429/)
    await healing({ url: `${server.url}/silent/x.git` }, /took over 2 s/)
    await healing({ url: 'http://127.0.0.1:9/x.git', allowedHosts: ['127.0.0.1:9'] }, /could not be reached/)
    refused(t, await fetch({ commit, url: `${server.url}/status-200/x.git` }), 'CLONE_FAILED', /not answer as a git/)
    refused(t, await fetch({ commit, url: `${server.url}/status-403/x.git` }), 'AUTHENTICATION_REQUIRED')
  })

  test('a cancelled fetch ends immediately and leaves nothing', async t => {
    const { server } = parts()
    const repository = await server.repository()
    const { commit } = await repository.push({ 'a.bin': Buffer.from(crypto.getRandomValues(new Uint8Array(60_000))) })
    server.behaviour.slow.set(repository.path, 30_000)
    const cancel = new AbortController()
    const fetching = fetch({ url: repository.url, commit }, cancel.signal)
    await wait(700)
    const from = Date.now()
    cancel.abort(new Error('no longer wanted'))
    const fetched = await fetching
    t.is(fetched.error?.message, 'no longer wanted')
    t.true(Date.now() - from < 20_000)
    leftNothing(t, fetched)
  })
}
