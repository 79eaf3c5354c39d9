import { X509Certificate } from 'node:crypto'
import { constants } from 'node:fs'
import { lstat, open, rename, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { rootCertificates } from 'node:tls'
import { ignoreError } from '../../lib/async/ignore-error.ts'
import { KeyedLock } from '../../lib/async/keyed-lock.ts'
import { MiB } from '../../lib/bytes.ts'
import { codeOf } from '../../lib/folders/error-codes.ts'
import { syncFolder } from '../../lib/folders/sync-folder.ts'
import { type AuthorityFile, type BuildFact, systemStores } from '../../policy/hosts/build-settings.ts'
import { keyStoreOf } from '../../policy/hosts/build-trust.ts'
import { keyStoreWith } from './key-store.ts'

export interface AuthoritiesOptions {
  /** Files whose authorities are added to those of the system; null = no bundle, builds trust what their images trust. */
  files: readonly AuthorityFile[] | null
  /** Folder of the bundle. Its path is the same for the container engine. */
  folder: string
  /** Called with what the bundle contains, each time that it was made, and with why it could not be. */
  report(fact: BuildFact): void
  /** Files that may be the system's store, in the order in which they are tried. */
  stores?: readonly string[]
}

export interface BuildAuthorities {
  /** The bundle of all certificates that builds trust, with their key store next to it, made again when one of its files has changed; null = those of the images. Never rejects: when it cannot be written, the one that is there is used. */
  bundle(): Promise<string | null>
}

/** The bundles of distributions have 0.2 MB. */
const maxFileBytes = 4 * MiB
const pattern = /-----BEGIN CERTIFICATE-----[A-Za-z0-9+/=\s]+-----END CERTIFICATE-----/g

/**
 * One file with the authorities of the system and those of the given files. Many tools replace their own store by the file that they
 * are given, so it has to be whole. It is a copy: a mounted path that is missing would become a folder, and its file may contain a key.
 */
export function buildAuthorities({
  files,
  folder,
  report,
  stores = systemStores,
}: AuthoritiesOptions): BuildAuthorities {
  const path = join(folder, 'build-authorities.pem')
  const keyStore = keyStoreOf(path)
  const lock = new KeyedLock()
  let bundle: { marks: string; path: string | null } | null = null
  let failure = ''

  async function make(): Promise<string | null> {
    const [system, ...named] = await Promise.all([
      firstStore(stores),
      ...(files ?? []).map(async file => ({ ...file, ...(await certificatesOf(file.path)) })),
    ])
    const extra = named.flatMap(({ certificates }) => certificates)
    // Where the system has no store, the authorities of Node take its place: the file must not shut out the public ones.
    const base = system?.certificates ?? (extra.length > 0 ? certificatesIn(rootCertificates.join('\n')) : [])
    const all = new Map([...base, ...extra].map(certificate => [certificate.fingerprint256, certificate]))
    if (all.size > 0) {
      const certificates = [...all.values()]
      await replace(folder, keyStore, keyStoreWith(certificates))
      await replace(folder, path, Buffer.from(certificates.map(certificate => certificate.toString()).join('')))
    }
    report(factOf({ count: all.size, system: system?.path ?? null, named }))
    return all.size > 0 ? path : null
  }

  /** A full disk must end neither the host nor its builds: what was made before, by an earlier process too, is as good as it was. */
  function unmade(error: unknown, isPresent: boolean): string | null {
    const fact = unwritten(path, error, isPresent)
    if (failure !== fact.state) report(fact)
    failure = fact.state
    return isPresent ? path : null
  }

  return {
    bundle: () =>
      lock.run('', async () => {
        if (files === null) return null
        const marks = await marksOf([...stores, ...files.map(file => file.path)])
        const isPresent = (await isFile(path)) && (await isFile(keyStore))
        if (bundle?.marks === marks && (bundle.path === null || isPresent)) return bundle.path
        try {
          bundle = { marks, path: await make() }
          failure = ''
          return bundle.path
        } catch (error) {
          bundle = null
          return unmade(error, isPresent)
        }
      }),
  }
}

const missing = 'missing'

/** Changes when a file is replaced or written to. */
async function markOf(path: string): Promise<string> {
  const stats = await stat(path).catch(() => null)
  return stats ? `${stats.ino} ${stats.size} ${stats.mtimeMs}` : missing
}

/** What the engine would mount as the bundle: no folder, and nothing behind a link. */
const isFile = (path: string): Promise<boolean> =>
  lstat(path).then(
    stats => stats.isFile(),
    () => false,
  )

const marksOf = async (paths: string[]): Promise<string> => (await Promise.all(paths.map(markOf))).join('\n')

async function firstStore(stores: readonly string[]) {
  for (const path of stores) {
    const { certificates } = await certificatesOf(path)
    if (certificates.length > 0) return { path, certificates }
  }
  return null
}

/** The certificates of a file, and nothing else of it; with the reason when there are none. */
async function certificatesOf(path: string): Promise<{ certificates: X509Certificate[]; fault: string | null }> {
  const none = (fault: string) => ({ certificates: [], fault })
  // A pipe without a writer must not hold up the host.
  const file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK).catch(codeOf)
  if (typeof file === 'string') return none(file === 'ENOENT' ? 'IS MISSING' : `CANNOT BE READ (${file})`)
  try {
    const stats = await file.stat()
    if (!stats.isFile()) return none('IS NO FILE')
    if (stats.size > maxFileBytes) return none(`HAS MORE THAN ${maxFileBytes / MiB} MB`)
    const buffer = Buffer.alloc(stats.size)
    const { bytesRead } = await file.read(buffer, 0, stats.size, 0)
    const certificates = certificatesIn(buffer.toString('latin1', 0, bytesRead))
    return certificates.length > 0 ? { certificates, fault: null } : none('HAS NO CERTIFICATES')
  } catch (error) {
    return none(`CANNOT BE READ (${codeOf(error)})`)
  } finally {
    await file.close()
  }
}

function certificatesIn(text: string): X509Certificate[] {
  return [...text.matchAll(pattern)].flatMap(([block]) => {
    try {
      return [new X509Certificate(block)]
    } catch {
      return [] // something else between these lines
    }
  })
}

/** Renamed into its place, so that a build that starts meanwhile gets one of both whole. Equal contents are left in place, as on a disk that is full. */
async function replace(folder: string, path: string, content: Buffer): Promise<void> {
  if (await contains(path, content)) return
  const draft = `${path}.new`
  await rm(draft, { force: true })
  try {
    const file = await open(draft, 'wx', 0o644)
    try {
      await file.chmod(0o644)
      await file.writeFile(content)
      await file.sync()
    } finally {
      await file.close()
    }
    await rename(draft, path)
  } catch (error) {
    await rm(draft, { force: true }).catch(ignoreError('the next attempt removes it'))
    throw error
  }
  await syncFolder(folder)
}

/** Whether this is a file that everyone may read, with exactly this content. */
async function contains(path: string, content: Buffer): Promise<boolean> {
  const file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK).catch(() => null)
  if (file === null) return false
  try {
    const stats = await file.stat()
    const isAlike = stats.isFile() && (stats.mode & 0o777) === 0o644 && stats.size === content.length
    return isAlike && (await file.readFile()).equals(content)
  } catch {
    return false // a disk with errors: it is written again
  } finally {
    await file.close()
  }
}

function unwritten(path: string, error: unknown, isPresent: boolean): BuildFact {
  const used = isPresent ? 'the file of before is used' : 'builds trust those of their images'
  return {
    state: `${path} CANNOT BE WRITTEN (${codeOf(error)}): ${used}`,
    remedy:
      'give the disk of the host free space, and its folder to the host process; the host tries again before each build',
  }
}

function factOf(bundle: {
  count: number
  system: string | null
  named: readonly (AuthorityFile & { fault: string | null })[]
}): BuildFact {
  const { count, system, named } = bundle
  const files = named.map(({ setting, path, fault }) => `${setting} ${path}${fault ? ` ${fault}` : ''}`)
  const from = [system ?? 'the machine has no store', ...files].join(', ')
  const faults = named.filter(({ fault }) => fault !== null)
  const settings = faults.map(({ setting }) => setting).join(' and ')
  const remedy = `correct ${settings} or its file; the host looks again before each build`
  const state = count === 0 ? `those of the images (${from})` : `${count} (${from})`
  return { state, remedy: faults.length > 0 ? remedy : null }
}
