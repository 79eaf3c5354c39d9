import { readdir, readFile, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import test from 'ava'
import { againLine } from '../../../activities/installs/compiled.ts'
import type { Release } from '../../../activities/releases/release.ts'
import { toolRules } from '../../../policy/hosts/installs.ts'
import { newCacheAt, newCacheName } from '../../../policy/runtimes/tool-folders.ts'
import { runtimes } from '../../../policy/runtimes.ts'
import { type Files, installingHosts, killed, textIn } from '../../kit/hosts/installs.ts'

const { docker, database, hostOf } = installingHosts()

test.before('the image of Go', async t => {
  t.timeout(500_000)
  await docker.host.ensureImage(runtimes.go.buildImage('1.24'))
})

const go: Partial<Release> = { language: 'go', runtimeVersion: '1.24', main: 'main.go' }
const goFiles = (word = 'one'): Files => ({
  'go.mod': 'module x\n\ngo 1.24\n',
  'main.go': `package main\n\nfunc main() { println(${JSON.stringify(word)}) }\n`,
})
/** Go as planned; its log has a line for each package that it compiles. */
const traced = `CGO_ENABLED=0 GOPATH=/tmp/go GOCACHE=/tmp/go-cache go build -v -o .berth/app ./.`
const compiled = (log: string) => log.split('\n').filter(line => /^[a-z]+(\/[\w./]+)?$/.test(line))

/** A step that reports what it finds in a folder of the tools, and leaves a file there; its program is a file. */
const marking = (mark: string, bytes = 1000) =>
  `mkdir -p /tmp/go-cache .berth && touch .berth/app && echo "found: $(ls -A /tmp/go-cache | tr '\\n' ' ')" && ` +
  `head -c ${bytes} /dev/urandom > /tmp/go-cache/${mark}`
const found = (log: string) => [...log.matchAll(/^found: (.*)$/gm)].map(([, names]) => names!.trim())

const archivesIn = async (root: string, account: string): Promise<string[]> =>
  (await readdir(join(root, 'installs', account)).catch(() => [])).map(name => join(root, 'installs', account, name))

const withCache = /^built from the sources, with the cache of its tools of 20/
const withoutCache = (why: string) => `built from the sources, without a cache: ${why}`

test('the second build of a program in Go compiles only what has changed, and a build without the cache everything', async t => {
  t.timeout(300_000)
  const { app, installs } = await hostOf(t)
  const { push } = await app()
  const first = await push(goFiles(), go, { build: traced })
  t.is(first.words, withoutCache('this host has none of the application'))
  t.true(compiled(first.log).includes('runtime'))
  await installs.settled()
  const second = await push(goFiles('two'), go, { build: traced })
  t.regex(second.words, withCache)
  t.true(second.log.includes(`Dependencies: ${second.words}.`))
  t.deepEqual(compiled(second.log), ['x'])
  t.is(await textIn(second.folders.tools, 'cache.tgz'), null, 'the folder for it is removed')
  t.true(((await stat(join(second.folders.dependencies, 'app'))).mode & 0o111) > 0)
  await installs.settled()
  const clean = await push(goFiles('two'), go, { build: traced, clean: true })
  t.is(clean.words, withoutCache('a build without the cache was requested'))
  t.true(compiled(clean.log).includes('runtime'))
})

test('the tools of an application find what its own last build left, and nothing of another one of the account', async t => {
  t.timeout(170_000)
  const { app, installs, root } = await hostOf(t)
  const one = await app()
  const first = await one.push(goFiles(), go, { build: marking('one') })
  await installs.settled()
  const other = await app(one.owner_id)
  const strange = await other.push(goFiles(), go, { build: marking('one') })
  t.is(strange.words, withoutCache('this host has none of the application'))
  await installs.settled()
  // Even with its archive under the name that the other application looks for.
  const archives = await archivesIn(root, one.owner_id)
  const of = (id: string) => archives.find(path => path.endsWith(`-${id}.tgz`))!
  t.is(archives.length, 2)
  await writeFile(of(other.id), await readFile(of(one.id)))
  const poisoned = await other.push(goFiles(), go, { build: marking('one') })
  t.is(poisoned.words, withoutCache('that of the last build was damaged'))
  t.deepEqual(
    [first, strange, poisoned].map(({ log }) => found(log)),
    [[''], [''], ['']],
  )
  await installs.settled()
  const next = await one.push(goFiles(), go, { build: marking('one') })
  t.deepEqual(found(next.log), ['one'])
})

test('a build without the cache that fails, or leaves none, has removed that of the last one', async t => {
  t.timeout(170_000)
  const { app, installs, root } = await hostOf(t)
  for (const [what, ending] of Object.entries({ fails: 'exit 3', 'leaves none': 'rm -r /tmp/go-cache' })) {
    const { push, owner_id } = await app()
    const build = `${marking('x')}; [ ! -e once ] || ${ending}`
    await push(goFiles(), go, { build })
    await installs.settled()
    t.is((await archivesIn(root, owner_id)).length, 1, what)
    const clean = push({ ...goFiles(), once: '' }, go, { build, clean: true })
    await (ending.startsWith('exit') ? t.throwsAsync(clean, { message: /exit code 3/ }) : clean)
    await installs.settled()
    t.deepEqual(await archivesIn(root, owner_id), [], what)
  }
})

test('a cache of tools is not used with another image or command, and is replaced then', async t => {
  t.timeout(170_000)
  const { app, host, installs, root } = await hostOf(t)
  const { push, owner_id, id } = await app()
  const { db } = await database
  const words = async (build: string) => {
    const { words } = await push(goFiles(), go, { build })
    await installs.settled()
    return words
  }
  const build = marking('x')
  await words(build)
  t.regex(await words(build), withCache)
  const changed = withoutCache('the image, the command or the environment of builds has changed')
  t.is(await words(`${build} `), changed)
  t.is(await words(build), changed)
  t.is((await archivesIn(root, owner_id)).length, 1, 'an application has one')

  const { imageId } = host.engine
  const otherImage = async () => `sha256:${'0'.repeat(64)}`
  Object.assign(host.engine, { imageId: otherImage, runToEnd: async () => ({ exitCode: 1, oom: false }) })
  await t.throwsAsync(words(build), { message: /exit code 1/ })
  Object.assign(host.engine, { imageId })
  t.is((await db('deployments').where({ app_id: id }).orderBy('release', 'desc').first()).dependencies, changed)
})

test('a damaged cache of tools is removed, and everything is built again', async t => {
  t.timeout(170_000)
  const { app, installs, root, warnings } = await hostOf(t)
  const { push, owner_id } = await app()
  await push(goFiles(), go, { build: marking('x') })
  await installs.settled()
  const damages: [string, (bytes: Buffer) => Buffer][] = [
    ['one bit', bytes => Buffer.concat([bytes.subarray(0, 300), Buffer.from([bytes[300]! ^ 1]), bytes.subarray(301)])],
    ['cut off', bytes => bytes.subarray(0, -1)],
    ['longer', bytes => Buffer.concat([bytes, Buffer.from('x')])],
    ['empty', () => Buffer.alloc(0)],
  ]
  for (const [what, damage] of damages) {
    const [path] = await archivesIn(root, owner_id)
    await writeFile(path!, damage(await readFile(path!)))
    const next = await push(goFiles(), go, { build: marking('x') })
    t.is(next.words, withoutCache('that of the last build was damaged'), what)
    t.deepEqual(found(next.log), [''], what)
    t.true(warnings.includes('installs: a stored cache of tools is not as it was stored'))
    await installs.settled()
  }
  t.regex((await push(goFiles(), go, { build: marking('x') })).words, withCache)
})

test('a build that fails with a cache runs again without it, and a cache that made it fail is not used again', async t => {
  t.timeout(170_000)
  const { app, installs, root } = await hostOf(t)
  const { push, owner_id } = await app()
  const spoiled = `if [ -e /tmp/go-cache/bad ]; then touch .berth/rest; exit 7; fi; ${marking('bad')}; [ ! -e once ] || rm -r /tmp/go-cache`
  const first = await push(goFiles(), go, { build: spoiled })
  t.false(first.log.includes(againLine))
  await installs.settled()
  const second = await push({ ...goFiles(), once: '' }, go, { build: spoiled })
  t.true(second.log.includes(againLine))
  t.is(second.words, withoutCache('the build failed with that of the last one'))
  t.deepEqual(found(second.log), [''])
  t.deepEqual(await archivesIn(root, owner_id), [], 'also where the second run leaves none')

  const broken = (code: number) =>
    `echo found: $(ls /tmp/go-cache); [ ! -e broken ] || exit ${code}; ${marking('good')}`
  const other = await app()
  await other.push(goFiles(), go, { build: broken(3) })
  await installs.settled()
  await t.throwsAsync(other.push({ ...goFiles(), broken: '' }, go, { build: broken(3) }), { message: /exit code 3/ })
  const mended = await other.push(goFiles(), go, { build: broken(3) })
  t.regex(mended.words, withCache, 'a mistake in the sources leaves the cache')
  t.deepEqual(found(mended.log), ['good', 'good'])
})

test('a build of which the host is killed before it is recorded is repeated, and leaves one cache and nothing else', async t => {
  t.timeout(170_000)
  const { app, host, installs, root, warnings } = await hostOf(t)
  const { push, owner_id } = await app()
  const { keepTools } = installs
  const { runToEnd } = host.engine
  const restore = () => {
    Object.assign(host.engine, { runToEnd })
    Object.assign(installs, { keepTools })
  }
  const deaths: Record<string, () => void> = {
    'after the container': () =>
      Object.assign(host.engine, {
        async runToEnd(...given: Parameters<typeof runToEnd>) {
          restore()
          await runToEnd(...given)
          throw killed
        },
      }),
    'before the cache is stored': () =>
      Object.assign(installs, {
        keepTools(...[, , { file }]: Parameters<typeof keepTools>) {
          restore()
          void file.close()
          throw killed
        },
      }),
  }
  for (const [when, die] of Object.entries(deaths)) {
    die()
    const built = await push(goFiles(), go, { build: marking('x'), clean: true })
    t.deepEqual(found(built.log), ['', ''], when)
    t.is(await textIn(built.folders.tools, newCacheName), null, when)
    t.deepEqual(await readdir(built.folders.dependencies), ['app'], when)
    await installs.settled()
    const archives = await archivesIn(root, owner_id)
    t.true(archives.length === 1 && archives[0]!.endsWith('.tgz'), when)
    t.deepEqual(warnings, [], when)
  }
})

test('a build’s cache is not stored if it is not a file, has too many files, or is too large', async t => {
  t.timeout(300_000)
  const { app, installs, root, warnings } = await hostOf(t)
  const { push, owner_id } = await app()
  const at = newCacheAt
  const endings = {
    'a folder': `mkdir -p ${at}/${newCacheName}/x`,
    'a link': `ln -s /app/elsewhere ${at}/${newCacheName}`,
    'too many files': `cd /tmp/go-cache && seq ${toolRules.files} | xargs touch`,
    'too large a file': `head -c ${toolRules.folderBytes} /dev/zero > /tmp/go-cache/zeros`,
    nothing: 'rm -r /tmp/go-cache',
  }
  for (const [what, ending] of Object.entries(endings)) {
    const built = await push(goFiles(), go, { build: `${marking('x')} && ${ending}` })
    await installs.settled()
    t.deepEqual(await archivesIn(root, owner_id), [], what)
    t.deepEqual(warnings, [], what)
    t.is(await textIn(built.folders.tools, newCacheName), null, what)
  }
  // Too large a folder is not packed, so what the build has written itself remains.
  const own = `head -c ${toolRules.folderBytes} /dev/zero > /tmp/go-cache/zeros && truncate -s ${toolRules.folderBytes + 1} ${at}/${newCacheName}`
  await push(goFiles(), go, { build: `${marking('x')} && ${own}` })
  await installs.settled()
  t.deepEqual(await archivesIn(root, owner_id), [])
  t.deepEqual(warnings, ['installs: a result was not stored'])
})

test('a cache that unpacks to more than the build container has makes no build fail', async t => {
  t.timeout(170_000)
  const { app, installs, root } = await hostOf(t)
  const { push, owner_id } = await app()
  // Too large to be packed by itself, so what the build has packed remains: 1.2 GB of zeros.
  const bomb =
    `[ -e once ] || { head -c ${toolRules.folderBytes} /dev/zero > /tmp/go-cache/zeros && truncate -s 1200M z && ` +
    `tar -I 'gzip -1' --transform 's,^,tmp/go-cache/,' -cf ${newCacheAt}/${newCacheName} z && rm z; }`
  const build = `${marking('x')} && ${bomb}`
  await push(goFiles(), go, { build })
  await installs.settled()
  t.is((await archivesIn(root, owner_id)).length, 1)
  const next = await push({ ...goFiles(), once: '' }, go, { build })
  t.true(next.log.includes('The cache of an earlier build could not be unpacked.'))
  t.deepEqual(found(next.log), [''])
  await installs.settled()
  t.deepEqual(found((await push({ ...goFiles(), once: '' }, go, { build })).log), ['x'])
})

test('a cache that has hardly grown is not packed again, and sources count as newer than what is in it', async t => {
  t.timeout(170_000)
  const { app, installs, root } = await hostOf(t)
  const { push, owner_id } = await app()
  const build =
    'mkdir -p /tmp/go-cache .berth && touch .berth/app && echo "newer: $(find . -name main.go -newer /tmp/go-cache/1)" && ' +
    'for mark in $(cat marks); do [ -e /tmp/go-cache/$mark ] || head -c 1000000 /dev/urandom > /tmp/go-cache/$mark; done'
  const marked = async (marks: string) => {
    const { log } = await push({ ...goFiles(), marks }, go, { build })
    await installs.settled()
    return { log, archives: await archivesIn(root, owner_id) }
  }
  const first = await marked('1 2 3 4 5 6 7 8 9 10 11')
  const more = await marked('1 12')
  t.deepEqual(more.archives, first.archives)
  t.true(more.log.includes('newer: ./main.go'))
  const much = await marked('1 12 13')
  t.notDeepEqual(much.archives, first.archives)
  t.is(much.archives.length, 1)
})
