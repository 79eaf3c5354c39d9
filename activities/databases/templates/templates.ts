import { createHash, randomBytes } from 'node:crypto'
import { chmod, chown, mkdir, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { Logger } from 'pino'
import type { DatabaseFacts } from '../../../db/operations/database-facts.ts'
import { KeyedLock } from '../../../lib/async/keyed-lock.ts'
import { once } from '../../../lib/async/once.ts'
import { deadlineSignal, unlessAborted } from '../../../lib/async/timeout.ts'
import { runProcess, systemEnvironment } from '../../../lib/child-process.ts'
import { databaseSeconds } from '../../../policy/databases/database-steps.ts'
import type { EngineName } from '../../../policy/databases/engine.ts'
import { dataTemplates } from '../../../policy/hosts/data-templates.ts'
import { type ContainerHost, type ContainerSpec, labels } from '../../containers/port.ts'
import type { HostTraits } from '../../containers/spec.ts'
import { type DatabaseFolders, databaseJob, foldersOf, passwdFile, passwdOf } from '../container.ts'
import { runJob } from '../dump-jobs.ts'
import type { DatabaseEngine, DatabaseTraits, DataTemplate } from '../port.ts'
import { makeFolders, writeSettings } from '../settings-folder.ts'
import type { TemplateArchives, TemplateKey } from './archives.ts'

export interface DataTemplateOptions {
  engine: Pick<ContainerHost, 'imageId' | 'runToEnd' | 'list' | 'remove'>
  engineOf: (name: EngineName) => DatabaseEngine
  archives: TemplateArchives
  /** Where data folders are made that become archives; of this host only. */
  drafts: string
  traits: HostTraits
  /** The user of all files of a host that is not root; null = root, who gives each database its own. */
  sharedUid: number | null
  log: Pick<Logger, 'warn'>
}

/** The image of a database, and which engine it has. */
export interface TemplateImage {
  engine: EngineName
  version: string
  image: string
}

/** Value of the label `role` of a container that makes a template. It belongs to no database, so no round takes it for a leftover of one. */
export const templateRole = 'database-template'

/** Of every template, whatever the memory and port of the databases that get a copy: nothing of either is in a data folder. */
const templateTraits = {
  id: '0'.repeat(32),
  memoryMb: 1024,
  port: 20_000,
  hostname: 'template.invalid',
  readOnly: false,
} as const
/** No customer's file has this user (nobody). */
const templateUid = 65_534
/** Nothing that a template is made of has a password. */
const noSecrets = { password: '', platformPassword: '' } as const

/**
 * Data folders that were initialised once for each image of a host and are copied for new databases. An archive is keyed by the id of the image
 * and by everything that its making depends on, so that another image or another setting never uses it. It is no one's: it has no
 * password, certificate or customer, and every copy gets an identity of its own.
 */
export function databaseTemplates(options: DataTemplateOptions) {
  const { engine, engineOf, archives, drafts, traits, sharedUid, log } = options
  const locks = new KeyedLock()
  /** Installations of one machine may have hosts of the same name. */
  const containerPrefix = `berth-template-${createHash('sha256').update(drafts).digest('hex').slice(0, 12)}`
  /** What an earlier process of this host has left; before anything new is made. */
  const removeLeftovers = once(async () => {
    for (const { name } of await engine.list({ [labels.host]: traits.id, [labels.role]: templateRole }))
      if (name.startsWith(containerPrefix)) await engine.remove(name)
    await rm(drafts, { recursive: true, force: true })
  })

  const warned =
    ({ image }: TemplateImage) =>
    (error: unknown) => {
      log.warn({ err: error, image }, 'templates of databases: the data folder is made without one')
      return null
    }

  /** Null when the engine has nothing to copy, or its image is missing. */
  async function plan({ engine: name, version, image }: TemplateImage): Promise<Plan | null> {
    const adapter = engineOf(name)
    const { template } = adapter
    const imageId = template && (await engine.imageId(image))
    if (!template || !imageId) return null
    const uid = sharedUid ?? templateUid
    const advertised = { host: templateTraits.hostname, port: templateTraits.port }
    const own: DatabaseTraits = { ...templateTraits, engine: name, version, uid, advertised, standIn: false }
    const commands = adapter.initialise(own)
    const settings = adapter.settings(own, noSecrets)
    const { layout } = dataTemplates
    const inputs = createHash('sha256').update(
      JSON.stringify([layout, template.folder, template.without, commands, settings]),
    )
    const key = { image: imageId.replace(/^sha256:/, ''), inputs: inputs.digest('hex').slice(0, 32) }
    return { template, key, traits: own, commands, settings }
  }

  /** Makes the archive unless there is one; false when the data folder is too large for one. One at a time for each key. */
  function provide(planned: Plan, signal: AbortSignal): Promise<boolean> {
    const work = locks.run(planned.key.image + planned.key.inputs, async () => {
      signal.throwIfAborted()
      if (await archives.has(planned.key)) return true
      await removeLeftovers()
      return make(planned, signal)
    })
    return unlessAborted(work, signal)
  }

  async function make({ template, key, traits: own, commands, settings }: Plan, signal: AbortSignal) {
    const name = newName()
    const draft = join(drafts, name)
    const folders = foldersOf(draft)
    try {
      await mkdir(folders.data, { recursive: true, mode: 0o700 })
      await chmod(drafts, 0o700)
      if (sharedUid === null) await chown(folders.data, own.uid, own.uid)
      await makeFolders(folders, own.uid)
      await writeSettings(folders, { ...settings, [passwdFile]: passwdOf(own.uid) }, own.uid)
      const within = deadlineSignal(databaseSeconds.initialise * 1000, signal)
      for (const command of commands) await runJob(engine, jobOf(name, { own, key, folders, command }), within)
      // Most of a new folder is zeros, which a copy with holes does not write.
      const sparse = join(draft, 'sparse')
      await mkdir(sparse, { mode: 0o700 })
      const copy = ['--archive', '--sparse=always', join(folders.data, template.folder), sparse]
      await runProcess('cp', copy, { env: systemEnvironment })
      return await archives.pack(key, { parent: sparse, name: template.folder, without: template.without })
    } finally {
      await rm(draft, { recursive: true, force: true })
    }
  }

  function jobOf(name: string, { own, key, folders, command }: Job): ContainerSpec {
    const { id, port, engine: engineName, version, memoryMb: ramMb, uid } = own
    const facts = { id, ownerId: templateRole, generation: 0, port, engine: engineName, version, ramMb, cpus: 1, uid }
    const { share: _, ...job } = databaseJob(facts as DatabaseFacts, folders, command, traits)
    return {
      ...job,
      image: `sha256:${key.image}`,
      name: `${containerPrefix}-${name}`,
      labels: { [labels.host]: traits.id, [labels.role]: templateRole },
    }
  }

  return {
    /** Makes the archive of an image unless there is one, so that the first database does not wait for it. */
    async prepare(image: TemplateImage, signal: AbortSignal): Promise<void> {
      const planned = await plan(image)
      if (planned) await provide(planned, signal)
    },

    /**
     * Puts a copy of the data folder into `data`, an empty folder of the database's user; false when the engine has none, or it cannot be
     * used: then `data` is empty still. The caller syncs.
     */
    async place(
      image: TemplateImage,
      { data, uid }: { data: string; uid: number },
      signal: AbortSignal,
    ): Promise<boolean> {
      const planned = await plan(image).catch(warned(image))
      if (!planned) return false
      const { key, template } = planned
      const draft = join(data, `${newName()}.new`)
      try {
        // An archive that turns out to be damaged is removed, and made anew once.
        for (let attempt = 0; attempt < 2; attempt++) {
          if (!(await provide(planned, signal))) return false
          await rm(draft, { recursive: true, force: true })
          await mkdir(draft, { mode: 0o700 })
          if (sharedUid === null) await chown(draft, uid, uid)
          if (!(await archives.unpack(key, draft, { uid, gid: uid }))) continue
          await template.individualize(join(draft, template.folder))
          await rename(join(draft, template.folder), join(data, template.folder))
          return true
        }
      } catch (error) {
        signal.throwIfAborted()
        warned(image)(error)
      } finally {
        await rm(draft, { recursive: true, force: true })
      }
      return false
    },

    /** Removes archives that nothing can use any more, and what a killed process of this host has left. */
    async sweep(): Promise<void> {
      await removeLeftovers()
      await archives.sweep(async image => (await engine.imageId(`sha256:${image}`)) !== null)
    },
  }
}

export type DatabaseTemplates = ReturnType<typeof databaseTemplates>

interface Job {
  own: DatabaseTraits
  key: TemplateKey
  folders: DatabaseFolders
  command: string[]
}

/** Random: a process that stood still while another one took over its host does not reach what that one makes. */
const newName = (): string => randomBytes(6).toString('hex')

/** How the archive of an image is made. */
interface Plan {
  template: DataTemplate
  key: TemplateKey
  traits: DatabaseTraits
  commands: string[][]
  settings: Record<string, string>
}
