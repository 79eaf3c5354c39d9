import { once } from 'node:events'
import {
  chmod,
  chown,
  lchown,
  link,
  lstat,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  rm,
  stat,
  symlink,
  writeFile,
} from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import test, { type ExecutionContext } from 'ava'
import { prepareEdge } from '../../edge/prepare.ts'
import { startProcess } from '../../lib/child-process.ts'
import { parseConfig } from '../../policy/config.ts'
import { demandRoot } from '../kit/root.ts'
import { startProxy } from '../kit/servers/proxy.ts'

/** www-data, the user of nginx's workers on Debian. */
const strange = 33

async function dataFolder(t: ExecutionContext): Promise<string> {
  const dataDir = await mkdtemp(join(tmpdir(), 'berth-folder-'))
  t.teardown(() => rm(dataDir, { recursive: true }))
  await chmod(dataDir, 0o711)
  return dataDir
}

const prepare = (dataDir: string, settings: Record<string, string> = {}) =>
  prepareEdge(parseConfig({ BERTH_DATA: dataDir, EDGE_TLS: 'local', ...settings }, '/'))

test('nothing that root opens by its path is in a folder of the user who parses requests', async t => {
  demandRoot()
  const proxy = await startProxy({ EDGE_TLS: 'local' })
  t.teardown(proxy.stop)
  const folder = join(proxy.config.dataDir, 'proxy')
  const ownerOf = async (name: string) => (await lstat(join(folder, name))).uid
  const names = ['.', 'nginx.conf', 'nginx.pid', 'unused-certificate.pem', 'cache', 'temporary']
  for (const name of names) t.is(await ownerOf(name), 0, name)
  const cache = (await readdir(join(folder, 'cache'))).map(name => `cache/${name}`)
  t.true(cache.length > 0)
  for (const name of ['access', 'tables', 'tables/routes.json', 'temporary/proxy', ...cache])
    t.is(await ownerOf(name), strange, name)
  t.is((await stat(folder)).mode & 0o777, 0o750)
  // As that user: whether it may put anything into the folder in which root starts nginx.
  const touch = startProcess('touch', [join(folder, 'nginx.conf.new')], { uid: strange, gid: strange, stdio: 'ignore' })
  t.not((await once(touch, 'exit'))[0], 0)
})

test('links that this user has left behind lead root nowhere', async t => {
  demandRoot()
  const dataDir = await dataFolder(t)
  const [folder, secret] = [join(dataDir, 'proxy'), join(dataDir, 'secret')]
  await writeFile(secret, 'of root', { mode: 0o600 })
  await mkdir(join(folder, 'cache'), { recursive: true })
  for (const path of [folder, join(folder, 'cache')]) await chown(path, strange, strange)
  const planted = ['nginx.conf.new', 'nginx.pid', 'access.hour', 'names.json', 'unused-certificate.pem', 'cache/part0']
  for (const name of planted) {
    await symlink(name === 'cache/part0' ? dataDir : secret, join(folder, name))
    await lchown(join(folder, name), strange, strange)
  }
  await link(secret, join(folder, 'pages.json'))
  await prepare(dataDir)
  const { uid, mode, nlink } = await stat(secret)
  t.deepEqual([uid, mode & 0o777, nlink, await readFile(secret, 'utf8')], [0, 0o600, 1, 'of root'])
  for (const name of ['nginx.pid', 'access.hour', 'cache/part0'])
    await t.throwsAsync(lstat(join(folder, name)), { code: 'ENOENT' })
})

test('a file that an operator has put into the folder stays', async t => {
  demandRoot()
  const dataDir = await dataFolder(t)
  const folder = join(dataDir, 'proxy')
  await prepare(dataDir)
  const key = join(folder, 'own.key')
  await writeFile(key, 'of the operator')
  await link(key, join(folder, 'second.key'))
  await writeFile(join(folder, 'nginx.pid'), '1')
  for (const path of [key, join(folder, 'nginx.pid')]) await chown(path, strange, strange)
  await prepare(dataDir)
  for (const name of ['own.key', 'second.key']) t.is(await readFile(join(folder, name), 'utf8'), 'of the operator')
  await t.throwsAsync(lstat(join(folder, 'nginx.pid')), { code: 'ENOENT' })
})

test('a link or a second name among the tables stops the start, and changes nothing', async t => {
  demandRoot()
  const dataDir = await dataFolder(t)
  const secret = join(dataDir, 'secret')
  await writeFile(secret, 'of root', { mode: 0o644 })
  await prepare(dataDir)
  const table = join(dataDir, 'proxy/tables/names.json')
  for (const plant of [symlink, link]) {
    await rm(table)
    await plant(secret, table)
    await t.throwsAsync(prepare(dataDir), { message: /names\.json is no plain file/ })
    const { uid, mode } = await stat(secret)
    t.deepEqual([uid, mode & 0o777], [0, 0o644])
  }
})

test('tables of an earlier version move to their new folder at the start', async t => {
  const dataDir = await dataFolder(t)
  await mkdir(join(dataDir, 'proxy'))
  await writeFile(join(dataDir, 'proxy/routes.json'), 'of before')
  // Also where the place of before was set.
  await prepare(dataDir, { EDGE_ROUTES_FILE: join(dataDir, 'proxy/routes.json') })
  await prepare(dataDir)
  t.is(await readFile(join(dataDir, 'proxy/tables/routes.json'), 'utf8'), 'of before')
  t.false((await readdir(join(dataDir, 'proxy'))).includes('routes.json'))
})

test('any other file of routes in the folder of root stops the start', async t => {
  demandRoot()
  const dataDir = await dataFolder(t)
  const set = { EDGE_ROUTES_FILE: join(dataDir, 'proxy/other.json') }
  await t.throwsAsync(prepare(dataDir, set), { message: /^EDGE_ROUTES_FILE must be in a folder of its own/ })
})
