import { createHash, type Hash, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { createReadStream } from 'node:fs'
import { chmod, mkdir, open, readdir, rename, rm, stat, utimes } from 'node:fs/promises'
import { join } from 'node:path'
import type { Readable, Writable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { ignoreError } from '../../../lib/async/ignore-error.ts'
import { KiB, MiB } from '../../../lib/bytes.ts'
import { outcomeOf, runProcess, startProcess, systemEnvironment } from '../../../lib/child-process.ts'
import { codeOf } from '../../../lib/folders/error-codes.ts'
import { NoSpaceLeft } from '../../../lib/folders/no-space-left.ts'
import type { Owner } from '../../../lib/folders/owner.ts'
import { syncFolder } from '../../../lib/folders/sync-folder.ts'
import { dataTemplates } from '../../../policy/hosts/data-templates.ts'

/** What an archive was made from: the id of an image, and a digest of everything else that its content depends on. Both in hex. */
export interface TemplateKey {
  image: string
  inputs: string
}

/** An archive by its name, which states what it was made from and the digest of its bytes. */
interface Archive extends TemplateKey {
  name: string
  digest: string
}

/** SHA-512/256, which is faster without instructions of the processor than SHA-256. */
const newDigest = (): Hash => createHash('sha512-256')

const drafts = '.draft'
/** A draft that is older was left by a process that was killed. */
const draftSeconds = 900

const archiveOf = (name: string): Archive | null => {
  const [, image, inputs, digest] = /^([0-9a-f]{64})\.([0-9a-f]{32})\.([0-9a-f]{64})\.tar$/.exec(name) ?? []
  return image && inputs && digest ? { name, image, inputs, digest } : null
}

const isOf =
  ({ image, inputs }: TemplateKey) =>
  (archive: Archive): boolean =>
    archive.image === image && archive.inputs === inputs

/**
 * Archives of data folders in one folder, which all hosts of a machine may share: an archive appears by one rename, under a name that has its
 * digest, and never changes.
 */
export function templateArchives(folder: string, limits: ArchiveLimits = dataTemplates) {
  const all = async (): Promise<Archive[]> => {
    const names = await readdir(folder).catch(error => {
      if (codeOf(error) !== 'ENOENT') throw error
      return []
    })
    return names.map(archiveOf).filter(archive => archive !== null)
  }
  const remove = (name: string) => rm(join(folder, name), { force: true })

  return {
    async has(key: TemplateKey): Promise<boolean> {
      return (await all()).some(isOf(key))
    },

    /** Packs the folder `name` of `parent`, holes left out, without the names in `without`. Leaves nothing behind when it is too large: false then. */
    async pack(key: TemplateKey, { parent, name, without }: PackedFolder): Promise<boolean> {
      await mkdir(folder, { recursive: true, mode: 0o700 })
      const draft = join(folder, `${randomBytes(8).toString('hex')}${drafts}`)
      try {
        const form = ['--create', '--format=gnu', '--sparse', '--owner=0', '--group=0', '--numeric-owner']
        const left = without.map(entry => `--exclude=${name}/${entry}`)
        await runProcess('tar', [...form, '--anchored', ...left, `--file=${draft}`, `--directory=${parent}`, name], {
          env: systemEnvironment,
        })
        await chmod(draft, 0o600)
        if ((await stat(draft)).size > limits.maxMb * MiB) return false
        const digest = newDigest()
        await pipeline(createReadStream(draft), digest)
        const file = await open(draft, 'r')
        await file.sync().finally(() => file.close())
        await rename(draft, join(folder, `${key.image}.${key.inputs}.${digest.digest('hex')}.tar`))
        await syncFolder(folder)
        return true
      } finally {
        await rm(draft, { force: true })
      }
    },

    /**
     * Unpacks an archive of this key into a folder of `owner`; resolves to false when there is none. One whose bytes are not those of its
     * name is removed, after which the folder may contain anything.
     */
    async unpack(key: TemplateKey, into: string, owner: Owner): Promise<boolean> {
      const archive = (await all()).find(isOf(key))
      if (!archive) return false
      const path = join(folder, archive.name)
      const now = new Date()
      await utimes(path, now, now).catch(ignoreError('another host has removed it; then it cannot be read either'))
      if ((await unpacked(path, into, owner)) === archive.digest) return true
      await remove(archive.name)
      return false
    },

    /** Removes archives of images that are no longer there, the least recently used of too many, and what killed processes have left. */
    async sweep(isPresent: (image: string) => Promise<boolean>): Promise<void> {
      const usable: { name: string; usedAt: number }[] = []
      for (const { name, image } of await all()) {
        if (!(await isPresent(image))) await remove(name)
        else usable.push({ name, usedAt: await changedAt(join(folder, name)) })
      }
      usable.sort((a, b) => b.usedAt - a.usedAt)
      for (const { name } of usable.slice(limits.max)) await remove(name)
      const names = await readdir(folder).catch(() => [])
      for (const name of names.filter(one => one.endsWith(drafts)))
        if ((await changedAt(join(folder, name))) < Date.now() - draftSeconds * 1000) await remove(name)
    },
  }
}

export type TemplateArchives = ReturnType<typeof templateArchives>

type ArchiveLimits = Readonly<Record<'maxMb' | 'max', number>>

export interface PackedFolder {
  parent: string
  name: string
  without: readonly string[]
}

/** Milliseconds since 1970; infinite for a file that another host has just removed. */
async function changedAt(path: string): Promise<number> {
  return stat(path).then(
    ({ mtimeMs }) => mtimeMs,
    () => Number.POSITIVE_INFINITY,
  )
}

/** Unpacks as the owner of the files; resolves to the digest of what was unpacked, or to null when it could not be read or is no archive. */
async function unpacked(path: string, into: string, { uid, gid }: Owner): Promise<string | null> {
  const user = process.getuid?.() === 0 ? { uid, gid } : {}
  const child = startProcess('tar', ['--extract', '--file=-', '--preserve-permissions'], {
    ...{ env: systemEnvironment, cwd: into, ...user },
    stdio: ['pipe', 'ignore', 'pipe'],
  })
  const digest = newDigest()
  const isRead = readInto(createReadStream(path, { highWaterMark: 512 * KiB }), digest, child.stdin!)
  const { code, error } = await outcomeOf(child)
  if (/no space left on device|disk quota exceeded/i.test(error))
    throw new NoSpaceLeft('The host has no disk space left.')
  return (await isRead) && code === 0 ? digest.digest('hex') : null
}

const drained = (to: Writable): Promise<unknown> => once(to, 'drain').catch(ignoreError('the exit code decides'))

/** Hashes every byte and passes it on for as long as `to` is open; false when not all could be read. */
async function readInto(from: Readable, digest: Hash, to: Writable): Promise<boolean> {
  // tar may end before it has read what follows the end of its archive; its exit code decides.
  to.on('error', ignoreError('the exit code of the reader decides'))
  const closed = once(to, 'close').catch(ignoreError('it has failed, and is closed'))
  try {
    for await (const chunk of from) {
      digest.update(chunk)
      if (to.writable && !to.write(chunk)) await Promise.race([drained(to), closed])
    }
    to.end()
    return true
  } catch {
    // A disk that cannot be read has the wrong bytes.
    to.destroy()
    return false
  }
}
