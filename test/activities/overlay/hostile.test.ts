import { existsSync } from 'node:fs'
import { chmod, lstat, mkdir, mkdtemp, readdir, readFile, readlink, rename, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import test from 'ava'
import { appContainer, type HostTraits, tenantNetwork } from '../../../activities/containers/spec.ts'
import { releaseFolders } from '../../../activities/releases/files.ts'
import { planInstall } from '../../../activities/releases/install-plan.ts'
import type { Release } from '../../../activities/releases/release.ts'
import { loopVolumes } from '../../../activities/volumes/loop.ts'
import { comesTrue } from '../../kit/comes-true.ts'
import { give, lay, seen } from '../../kit/folders.ts'
import { realDocker } from '../../kit/servers/docker.ts'

/*
 * What a program in its container can lay in the way of the host, which copies its files for an install step meanwhile (C1). This
 * process is the host's: what is in its environment must not come out.
 */
const canary = `canary-${crypto.randomUUID()}`
process.env.BERTH_CANARY = canary

const { host, run, clean } = realDocker()
const root = await mkdtemp(join(tmpdir(), 'berth-overlay-'))
const volumes = loopVolumes(root)
const uid = 20_011
const appId = `attacker-${run}`
const traits: HostTraits = { id: run, runtime: 'runc', configNames: [], buildProxy: null, caBundle: null }
const release: Release = {
  appId,
  ownerId: 'tenant-o',
  hostId: run,
  hostAddress: '127.0.0.1',
  number: 1,
  uid,
  ramMb: 256,
  reservedMb: 256,
  cpus: 1,
  diskMb: 64,
  language: 'python',
  runtimeVersion: '3.11',
  main: 'main.py',
  start: null,
  hostname: null,
  source: null,
  path: '',
  restart: true,
  deploymentId: null,
}
const network = tenantNetwork(release.ownerId, run)
const files = join(volumes.path(appId), 'files')
/** Files of a host process in `/proc/self`, and what the program puts in their place. */
const names = ['environ', 'mounts', 'status', 'maps']
const dummy = Buffer.alloc(2 * 1024 * 1024, 'x')
const rounds = 5
let lastRelease = 1

/** Replaces the folder `a` by a link to /proc/self as soon as something in it is opened. */
const program = `
import ctypes, os, struct
libc = ctypes.CDLL(None, use_errno=True)
os.makedirs('/app/a')
for name in ${JSON.stringify(names)}:
  open('/app/a/' + name, 'wb').write(b'x' * ${dummy.length})
os.symlink('/proc/self', '/app/b')
os.symlink('${root}/outside', '/app/x')
watch = libc.inotify_init1(0)
assert libc.inotify_add_watch(watch, b'/app/a', 0x20) >= 0 # IN_OPEN
open('/app/watching', 'w').close()
while True:
  events, at, hit = os.read(watch, 65536), 0, False
  while at < len(events):
    _, mask, _, length = struct.unpack_from('iIII', events, at)
    # Of files in it only: a listing opens the folder itself.
    hit = hit or (length > 0 and not mask & 0x40000000)
    at += 16 + length
  if hit and not os.path.islink('/app/a'):
    assert libc.renameat2(-100, b'/app/a', -100, b'/app/b', 2) == 0 # RENAME_EXCHANGE
    open('/app/swapped', 'w').close()
`

/** Installs an upload of some files alongside the program, as a deploy does; returns the folder of the install step. */
async function plan(path: string): Promise<string> {
  const number = ++lastRelease
  const folders = releaseFolders(volumes.path(appId), number)
  // It may name any file, so all are copied.
  lay(folders.source, { 'requirements.txt': '-r later.py', 'later.py': 'brought' })
  give(folders.root, uid)
  const app = { release: 1, language: 'javascript', runtime_version: '22' } as never // another language installs again
  const where = { volume: volumes.path(appId), app, owner: { uid, gid: uid }, configNames: [] }
  const signal = AbortSignal.timeout(120_000)
  await planInstall(
    { ...release, number, path, source: { kind: 'archive', segmentId: 's' } },
    { ...where, mayKeep: async () => true, reuse: async ({ plan }) => plan, signal },
  )
  return folders.build
}

test.before(async () => {
  await chmod(root, 0o755)
  await mkdir(join(root, 'outside'))
  await chmod(join(root, 'outside'), 0o777)
  await host.ensureImage('berth/python:3.11')
  await host.ensureNetwork(network)
  await volumes.ensure(appId, release.diskMb, uid)
  await writeFile(join(files, 'main.py'), program)
  await writeFile(join(files, 'requirements.txt'), 'six') // something to install, without which nothing is copied
  const spec = appContainer(release, { files, dependencies: null }, {}, traits)
  await host.create(spec)
  await host.start(spec.name)
  await comesTrue(async () => existsSync(join(files, 'watching')))
})

test.after.always(async () => {
  await clean(network.name)
  for (const id of await volumes.list()) await volumes.remove(id)
  await rm(root, { recursive: true, force: true })
})

test.serial('a folder that becomes a link during the copy leads to nothing of the host', async t => {
  let raced = 0
  for (let round = 0; round < rounds * 10 && raced < rounds; round++) {
    const build = await plan('')
    await comesTrue(async () => existsSync(join(files, 'swapped')))
    t.is(await readlink(join(files, 'a')), '/proc/self')
    const texts = Object.values(seen(build))
    t.true(texts.includes('file 644 brought'))
    t.false(texts.some(text => text.includes(canary)))
    // When the program was too early, the link was copied as a link.
    if ((await lstat(join(build, 'a'))).isDirectory()) {
      raced++
      // Missing, or the program's own: nothing else ever had this name.
      for (const name of await readdir(join(build, 'a')))
        t.true((await readFile(join(build, 'a', name))).equals(dummy), `${name} in round ${round}`)
    }
    await rm(join(files, 'swapped'))
    for (const [from, to] of ['a>c', 'b>a', 'c>b'].map(step => step.split('>')))
      await rename(join(files, from!), join(files, to!))
    await rm(build, { recursive: true })
  }
  t.is(raced, rounds)
})

test.serial('an upload into a link lands only in the requested folder', async t => {
  for (const path of ['x', 'x/inner']) {
    const build = await plan(path)
    t.is(await readFile(join(build, path, 'later.py'), 'utf8'), 'brought')
    t.true((await lstat(join(build, 'x'))).isDirectory())
    t.deepEqual(await readdir(join(root, 'outside')), [])
    await rm(build, { recursive: true })
  }
})
