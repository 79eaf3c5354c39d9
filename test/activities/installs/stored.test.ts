import { lstat, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import test from 'ava'
import { dependenciesOf } from '../../../activities/releases/files.ts'
import type { Release } from '../../../activities/releases/release.ts'
import { installingHosts, npmFiles, preparedOf, textIn } from '../../kit/hosts/installs.ts'

const { hostOf } = installingHosts()

const archivesIn = async (root: string, account: string): Promise<string[]> =>
  (await readdir(join(root, 'installs', account)).catch(() => [])).map(name => join(root, 'installs', account, name))

test('another application of the account gets a stored result, as files of its own user', async t => {
  t.timeout(110_000)
  const { app, installs } = await hostOf(t)
  const first = await app()
  const made = await first.push(npmFiles())
  await installs.settled()
  const second = await app(first.owner_id)
  const next = await second.push(npmFiles())
  t.false(next.installs)
  t.regex(next.words, /^reused from the cache of the account, installed at 20/)
  const folder = (await dependenciesOf(second.volume, next.release.number))!
  const name = '.package-lock.json'
  t.is(await textIn(folder, name), await textIn(made.folders.dependencies, name))
  const owner = process.getuid!() === 0 ? second.uid : process.getuid!()
  t.deepEqual([(await lstat(folder)).uid, (await stat(join(folder, name))).uid], [owner, owner])
  const records = [
    await preparedOf(second.volume, next.release.number),
    await preparedOf(first.volume, made.release.number),
  ]
  t.deepEqual(...(records.map(({ installed }) => ({ ...installed, at: 0 })) as [object, object]))
  t.regex((await second.push({ ...npmFiles(), 'index.js': 'x' })).words, /^reused from release 2/)
})

test('an account cannot put its files into the dependencies of another one, whatever it installs from an equal lock file', async t => {
  t.timeout(110_000)
  const { app, installs, root } = await hostOf(t)
  const [ana, ben] = [await app(), await app()]
  // A package of its registry, or a proxy, brings other files than the lock file of others stands for.
  const poison = 'mkdir -p node_modules && echo "stolen" > node_modules/.package-lock.json'
  const poisoned = await ana.push(npmFiles(), {}, { install: poison })
  await installs.settled()
  t.is((await archivesIn(root, ana.owner_id)).length, 1)
  t.is(await textIn(poisoned.folders.dependencies, '.package-lock.json'), 'stolen\n')

  const clean = await ben.push(npmFiles())
  t.true(clean.installs, 'installed by itself')
  t.is(clean.words, 'installed anew: there is no earlier result')
  t.regex((await textIn(clean.folders.dependencies, '.package-lock.json')) ?? '', /lockfileVersion/)
  const keyOf = async ({ volume }: typeof ana, { release }: typeof clean) =>
    (await preparedOf(volume, release.number)).installed!.key
  t.not(await keyOf(ana, poisoned), await keyOf(ben, clean), 'the account is a part of the key')

  // Even with its archive under the name that the other account looks for.
  await installs.settled()
  const [[from], [to]] = [await archivesIn(root, ana.owner_id), await archivesIn(root, ben.owner_id)]
  await writeFile(to!, await readFile(from!))
  const third = await (await app(ben.owner_id)).push(npmFiles())
  t.is(third.words, 'installed anew: the stored result was damaged')
  t.regex((await textIn(third.folders.dependencies, '.package-lock.json')) ?? '', /lockfileVersion/)
})

test('a damaged archive is removed, and its packages are installed again', async t => {
  t.timeout(170_000)
  const { app, installs, root, warnings } = await hostOf(t)
  const first = await app()
  await first.push(npmFiles())
  await installs.settled()
  const damages: [string, (bytes: Buffer) => Buffer][] = [
    ['one bit', bytes => Buffer.concat([bytes.subarray(0, 100), Buffer.from([bytes[100]! ^ 1]), bytes.subarray(101)])],
    ['cut off', bytes => bytes.subarray(0, -1)],
    ['empty', () => Buffer.alloc(0)],
  ]
  for (const [what, damage] of damages) {
    const [path] = await archivesIn(root, first.owner_id)
    await writeFile(path!, damage(await readFile(path!)))
    const next = await (await app(first.owner_id)).push(npmFiles())
    t.is(next.words, 'installed anew: the stored result was damaged', what)
    t.regex((await textIn(next.folders.dependencies, '.package-lock.json')) ?? '', /lockfileVersion/)
    t.true(warnings.includes('installs: a stored result could not be used'))
    await installs.settled()
  }
  const after = await (await app(first.owner_id)).push(npmFiles())
  t.regex(after.words, /^reused from the cache/)
})

test('a fault of the disk of the cache fails no deploy', async t => {
  t.timeout(110_000)
  const { app, installs, root, warnings } = await hostOf(t)
  const first = await app()
  await first.push(npmFiles())
  await installs.settled()
  // Its files are known, and every call for one of them fails.
  const folder = join(root, 'installs', first.owner_id)
  await rm(folder, { recursive: true })
  await writeFile(folder, '')
  const other = await app(first.owner_id)
  t.is((await other.push(npmFiles())).words, 'installed anew: there is no earlier result')
  t.true(warnings.includes('installs: the disk of the cache has a fault'))
  t.regex((await first.push(npmFiles())).words, /^reused from release 2/)
  t.true((await other.push(npmFiles(), {}, { clean: true })).installs)
})

test('a build without the cache replaces the stored result', async t => {
  t.timeout(110_000)
  const { app, installs, root } = await hostOf(t)
  const first = await app()
  await first.push(npmFiles())
  await installs.settled()
  const [before] = await archivesIn(root, first.owner_id)
  const second = await app(first.owner_id)
  const clean = await second.push(
    npmFiles(),
    {},
    { clean: true, install: 'mkdir node_modules && touch node_modules/fresh' },
  )
  t.is(clean.words, 'installed anew: a build without the cache was requested')
  await installs.settled()
  const [after, ...more] = await archivesIn(root, first.owner_id)
  t.not(after, before)
  t.deepEqual(more, [])
  const third = await (await app(first.owner_id)).push(npmFiles())
  t.not(await textIn(third.folders.dependencies, 'fresh'), null)
})

test('a build without the cache that fails has removed the stored result', async t => {
  t.timeout(110_000)
  const { app, installs, root } = await hostOf(t)
  const first = await app()
  await first.push(npmFiles())
  await installs.settled()
  t.is((await archivesIn(root, first.owner_id)).length, 1)
  const second = await app(first.owner_id)
  await t.throwsAsync(second.push(npmFiles(), {}, { clean: true, install: 'exit 3' }), { message: /exit code 3/ })
  t.deepEqual(await archivesIn(root, first.owner_id), [])
  t.is((await second.push(npmFiles())).words, 'installed anew: there is no earlier result')
})

test('after a build without the cache nothing that was installed before is used again, whether it fails or not', async t => {
  t.timeout(170_000)
  const { app, installs } = await hostOf(t)
  const { push, place } = await app()
  const first = await push(npmFiles())
  await place(npmFiles())
  const archive = { source: { kind: 'archive', segment: 'x' }, path: '' } as unknown as Partial<Release>
  const commit = () => push({ 'index.js': 'x' }, archive)
  t.is((await commit()).words, `those of release ${first.release.number}: the upload brings no others`)
  const other = await push(npmFiles('1.0.1'))

  await t.throwsAsync(push(npmFiles(), {}, { clean: true, install: 'exit 3' }), { message: /exit code 3/ })
  t.regex((await push(npmFiles('1.0.1'))).words, new RegExp(`^reused from release ${other.release.number},`))
  const next = await push(npmFiles())
  t.is(next.words, `installed anew: since release ${other.release.number} changed package-lock.json`)
  t.regex((await push(npmFiles())).words, new RegExp(`^reused from release ${next.release.number},`))

  await t.throwsAsync(push(npmFiles(), {}, { clean: true, install: 'exit 3' }), { message: /exit code 3/ })
  t.is((await commit()).words, 'installed anew: a build without the cache was begun since')
  const clean = await push(npmFiles(), {}, { clean: true })
  await installs.settled()
  await rm(clean.folders.dependencies, { recursive: true })
  t.is((await push(npmFiles())).installs, false, 'the stored result of the clean build')
})

test('a build without the cache asks once whether it is one', async t => {
  t.timeout(110_000)
  const { app, host } = await hostOf(t)
  const { push } = await app()
  const asked: unknown[] = []
  host.db.on('query', ({ sql, bindings }: { sql: string; bindings: unknown[] }) => {
    if (/^select "no_cache"/.test(sql)) asked.push(bindings[0])
  })
  const alone = await push(npmFiles(), {}, { clean: true })
  const times = ({ release }: typeof alone) => asked.filter(id => id === release.deploymentId).length
  t.is(times(alone), 1)
  const manifest = JSON.stringify({ scripts: { postinstall: 'true' }, dependencies: { x: '1' } })
  const among = await push({ 'package.json': manifest }, {}, { clean: true, install: 'mkdir node_modules' })
  t.is(times(among), 1, 'also among all files')
})
