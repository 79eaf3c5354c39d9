import { once } from 'node:events'
import { chmod, chown, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { archives } from '../../../activities/archives/process.ts'
import { ImageUnavailable, labels } from '../../../activities/containers/port.ts'
import type { AppHostOptions } from '../../../activities/hosts/app-host-options.ts'
import { filesystemStore } from '../../../activities/objects/filesystem.ts'
import type { Placement } from '../../../activities/placement/port.ts'
import { placement } from '../../../activities/placement/process.ts'
import { SnapshotRefused, type SnapshotRequest, type Snapshots } from '../../../activities/snapshots/port.ts'
import { snapshots } from '../../../activities/snapshots/process.ts'
import { folderVolumes } from '../../../activities/volumes/folder.ts'
import { loadApp } from '../../../db/apps/apps.ts'
import type { Db } from '../../../db/database.ts'
import { allocateSegment } from '../../../db/objects/segments.ts'
import { NoSpaceLeft } from '../../../lib/folders/no-space-left.ts'
import { newId } from '../../../policy/ids.ts'
import { runtimes } from '../../../policy/runtimes.ts'
import { decisions, type HostUnderContract } from '../../contracts/host-scene.ts'
import type { Trouble } from '../../contracts/host-troubles.ts'
import { bodyOf } from '../bodies.ts'
import { FakeContainerHost, type FakeProgram } from '../fakes/container-host.ts'
import { rows } from '../rows/rows.ts'
import { zipOf } from '../zips.ts'
import { inBoot } from './boots.ts'
import { hostSteps } from './host-steps.ts'

const root = process.getuid?.() === 0
const program = 'node index.js'
const installStep = runtimes.javascript.install({ files: ['package.json'], main: null })!
const installs: FakeProgram = { prints: 'added 1 package\n', exits: 0 }

/** An engine that has every image, or none. */
class Engine extends FakeContainerHost {
  withoutImages = false

  override async ensureImage(image: string): Promise<void> {
    await super.ensureImage(image)
    if (this.withoutImages) throw new ImageUnavailable(`The image ${image} cannot be had.`)
  }
}

/**
 * Makes hosts whose steps are the real ones, on Postgres, real files, archives, placements and snapshots, and an engine in memory.
 * Files of all of them lie in one folder, which goes with `close`.
 */
export async function realHosts(givenDatabase: Promise<{ db: Db }>) {
  const folder = await mkdtemp(join(tmpdir(), 'berth-real-hosts-'))
  await chmod(folder, 0o755)
  const store = await filesystemStore(join(folder, 'objects'))
  const parts = { store, archives: archives(), placement: placement(), snapshots: snapshots() }
  return {
    open: async () => realHost((await givenDatabase).db, folder, parts),
    async close() {
      await parts.archives.close()
      await rm(folder, { recursive: true, force: true })
    },
  }
}

type Parts = Pick<AppHostOptions, 'store' | 'archives' | 'placement' | 'snapshots'>

async function realHost(db: Db, folder: string, parts: Parts): Promise<HostUnderContract> {
  const id = `h-${newId()}`
  await rows(db).host(id)
  const programs: Record<string, FakeProgram> = { [installStep]: installs }
  const engine = new Engine(programs)
  // Whether its syncs reach the disk has tests of its own.
  const volumes = { ...folderVolumes(join(folder, id)), flush: async () => {} }
  const suffers = { trouble: null as Trouble | null, copies: 0 }
  const { activities, snapshots: copying } = hostSteps(db, id, folder, {
    ...parts,
    ...decisions,
    engine,
    volumes,
    placement: failing(parts.placement, suffers),
    snapshots: hindered(parts.snapshots, suffers),
    boot: inBoot('boot'),
    sharedUid: root ? null : process.getuid!(),
    variables: async ({ appId }) => ({ version: (await loadApp(db, appId))!.variables_version, values: {} }),
  })
  const filesOf = (appId: string) => `${volumes.path(appId)}/files`
  return {
    id,
    activities: { ...activities, ...copying },

    async store({ release, installs }) {
      const segmentId = await allocateSegment(db)
      const zip = zipOf({
        'release.txt': String(release),
        ...(installs && { 'package.json': '{"scripts":{"install":"true"}}' }),
      })
      await parts.store.put(segmentId, bodyOf(zip))
      return segmentId
    },

    async lay({ appId, uid, number, diskMb }) {
      await volumes.ensure(appId, diskMb, uid)
      await writeFile(`${filesOf(appId)}/release.txt`, String(number))
      if (root) await chown(`${filesOf(appId)}/release.txt`, uid, uid)
    },

    async suffer(_, trouble) {
      suffers.trouble = trouble
      engine.unreachable = trouble === 'the engine is away'
      engine.withoutImages = trouble === 'no image'
      programs[program] =
        trouble === 'the program ends' ? { exits: 137, oom: true } : { deaf: trouble === 'the program is deaf' }
      const fails = { prints: 'no such package\n', exits: 1 }
      programs[installStep] = trouble === 'the install step fails' ? fails : trouble === 'it never ends' ? {} : installs
    },

    async standing(appId) {
      const all = await engine.list({ [labels.app]: appId })
      const releases = all.filter(({ labels: its }) => its[labels.role] === 'app')
      const text = await readFile(`${filesOf(appId)}/release.txt`, 'utf8').catch(() => null)
      return {
        containers: Object.fromEntries(releases.map(({ labels: its, running }) => [its[labels.release], running])),
        files: text === null ? null : Number(text),
        disk: (await volumes.list()).includes(appId),
        busy: all.length - releases.length + suffers.copies,
      }
    },
  }
}

interface Suffers {
  trouble: Trouble | null
  copies: number
}

/** A placement that fails as its port says (activities/placement/port.ts), when it is to. */
function failing(real: Placement, suffers: Suffers): Placement {
  const check = () => {
    if (suffers.trouble === 'the disk is full') throw new NoSpaceLeft('The application has no disk space left.')
    if (suffers.trouble === 'it is cut off') throw new Error('Placing the files was cut off by SIGKILL.')
  }
  return {
    ...real,
    async place(request) {
      check()
      return real.place(request)
    },
    async restore(request) {
      check()
      return real.restore(request)
    },
  }
}

/** Snapshots that are refused, or never come to their end, when they are to. */
function hindered(real: Snapshots, suffers: Suffers): Snapshots {
  return {
    ...real,
    make(request) {
      if (suffers.trouble === 'no archive holds the files')
        return broken(Promise.reject(new SnapshotRefused('A name is too long.')))
      return suffers.trouble === 'it never ends' ? broken(endless(request, suffers)) : real.make(request)
    },
  }
}

async function endless({ signal }: SnapshotRequest, suffers: Suffers): Promise<never> {
  suffers.copies++
  if (!signal.aborted) await once(signal, 'abort')
  suffers.copies--
  throw new Error('It was ended.')
}

/** An archive that fails when its making does, before its first byte. */
function broken(totals: Promise<never>) {
  const body = new Readable({ read() {} })
  totals.catch(error => body.destroy(error))
  return { body, totals }
}
