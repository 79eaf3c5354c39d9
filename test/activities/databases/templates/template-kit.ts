import { createHash } from 'node:crypto'
import { chmodSync, mkdirSync, mkdtempSync, rmSync, truncateSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import test from 'ava'
import type { ContainerSpec } from '../../../../activities/containers/port.ts'
import { type DatabaseEngine, places } from '../../../../activities/databases/port.ts'
import { templateArchives } from '../../../../activities/databases/templates/archives.ts'
import { databaseTemplates } from '../../../../activities/databases/templates/templates.ts'
import { MiB } from '../../../../lib/bytes.ts'
import { dataTemplates } from '../../../../policy/hosts/data-templates.ts'
import { FakeContainerHost } from '../../../kit/fakes/container-host.ts'
import { logLines } from '../../../kit/log-sink.ts'

const root = mkdtempSync(join(tmpdir(), 'berth-templates-'))
// Everyone may pass through the folders above volumes.
chmodSync(root, 0o711)
test.after.always(() => rmSync(root, { recursive: true, force: true }))
let folders = 0

export const newFolder = (): string => {
  const folder = join(root, String(++folders))
  mkdirSync(folder)
  return folder
}

export const customerUid = 31_000
export const image = { engine: 'postgres', version: '17', image: 'berth/postgres:17' } as const

/** Data folders of a test's engine: a counter of how often one was made, a hole, and what identifies it. */
class MakingEngine extends FakeContainerHost {
  readonly jobs: ContainerSpec[] = []
  ids = new Map<string, string | null>()
  /** Before a job ends. */
  before: () => Promise<void> = async () => {}

  override async imageId(name: string) {
    const id = this.ids.get(name.replace(/^sha256:/, ''))
    return id === undefined
      ? `sha256:${createHash('sha256')
          .update(name.replace(/^sha256:/, ''))
          .digest('hex')}`
      : id
  }

  override async runToEnd(spec: ContainerSpec) {
    this.jobs.push(spec)
    await this.before()
    const data = spec.binds.find(({ target }) => target === places.data)!.source
    mkdirSync(join(data, 'folder', 'deep'), { recursive: true, mode: 0o700 })
    writeFileSync(join(data, 'folder', 'text'), `made ${this.jobs.length}`, { mode: 0o600 })
    writeFileSync(join(data, 'folder', 'hole'), 'x')
    truncateSync(join(data, 'folder', 'hole'), 8 * MiB)
    writeFileSync(join(data, 'folder', 'deep', 'bytes'), Buffer.alloc(MiB, 'abc'))
    writeFileSync(join(data, 'folder', 'who'), 'an identity')
    return { exitCode: 0, oom: false }
  }
}

export interface HostChoice {
  cache?: string
  settings?: Record<string, string>
  limits?: Partial<Record<'maxMb' | 'max', number>>
  /** Those of a process of the same host before. */
  drafts?: string
  engine?: MakingEngine
}

/** One host with a cache of its own, or one that it shares. */
export function templateHost({
  cache = newFolder(),
  settings = { 'engine.conf': 'x = 1' },
  limits,
  drafts = join(newFolder(), 'drafts'),
  engine = new MakingEngine(),
}: HostChoice = {}) {
  const secrets: unknown[] = []
  const identified: string[] = []
  const adapter = {
    initialise: () => [['make']],
    settings: (_traits: unknown, given: unknown) => {
      secrets.push(given)
      return settings
    },
    template: {
      folder: 'folder',
      without: ['who'],
      individualize: async (folder: string) => void identified.push(folder),
    },
  } as unknown as DatabaseEngine & { template: { individualize(folder: string): Promise<void> } }
  const archives = templateArchives(cache, { ...dataTemplates, ...limits })
  const traits = { id: 'h1', runtime: 'runc', configNames: [], buildProxy: null, caBundle: null } as const
  const sharedUid = process.getuid?.() === 0 ? null : process.getuid!()
  const { log, lines } = logLines()
  const templates = databaseTemplates({ engine, engineOf: () => adapter, archives, drafts, traits, sharedUid, log })
  return {
    ...{ engine, adapter, templates, archives, cache, drafts, secrets, identified, lines },
    /** Puts a copy into a new folder; resolves to it. */
    async place(signal = new AbortController().signal): Promise<{ data: string; placed: boolean }> {
      const data = newFolder()
      const placed = await templates.place(image, { data, uid: sharedUid ?? customerUid }, signal)
      return { data, placed }
    },
  }
}
