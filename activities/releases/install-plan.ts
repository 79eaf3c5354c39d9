import type { AppRow } from '../../db/apps/apps.ts'
import { MiB } from '../../lib/bytes.ts'
import type { Owner } from '../../lib/folders/owner.ts'
import { installRules, notForReuse } from '../../policy/hosts/installs.ts'
import type { InstallInputs } from '../../policy/runtimes/runtime.ts'
import { dependencyFile, type Language, namesForInstall, namesThatInstall, runtimes } from '../../policy/runtimes.ts'
import { removeWhole } from '../app-files/trash.ts'
import { layReleaseOver } from '../overlay/process.ts'
import { exists, lenderOf, type Prepared, type ReleaseFolders, releaseFolders } from './files.ts'
import { checkProgram } from './program-check.ts'
import type { Release } from './release.ts'
import { fileIn, hasAnywhere, hasOthers, isEmptyFolder, namesIn } from './root-names.ts'

/** Compilers write here: any change of the sources needs a new run. What pip and bundler install lies there too. */
const compiledAt = '/opt/build'

/** How an application changes whose dependencies are to be kept. */
export interface KeptWith {
  /** The step of which they must be the result; null where only image and certificates count. */
  step: Prepared | null
  /** Whether a file changes that the step before may have read; the configuration is for Berth alone. */
  changesFiles: boolean
}

export interface InstallPlace {
  volume: string
  /** The row before this release. */
  app: AppRow | undefined
  owner: Owner | null
  configNames: readonly string[]
  /** Whether what the serving release has installed may serve this one too. */
  mayKeep(kept: KeptWith): Promise<boolean>
  /** Stops the copying of files. */
  signal: AbortSignal
}

/**
 * Decides the install step of a release. A whole program (a first upload, a commit, a snapshot) is installed from its own files.
 * An upload of some files keeps the dependencies of the serving release, unless it may not, brings dependency or lock files, settings of
 * their tools, a dependency file of a workspace, another runtime, or any file where the step may read all, or is compiled: then it is
 * installed from a copy of the application's files with the upload laid over it. Throws INVALID_MAIN,
 * MISSING_DEPENDENCIES_FILE, and as `layReleaseOver` does.
 */
export async function planInstall(
  release: Release,
  { volume, app, owner, configNames, mayKeep, signal }: InstallPlace,
): Promise<Prepared> {
  const folders = releaseFolders(volume, release.number)
  const wanted = [...namesThatInstall(release.language), ...configNames]
  const sourceNames = await namesIn(folders.source, wanted)
  const serving = app?.release ?? 0
  const whole = serving === 0 || release.source?.kind === 'git' || release.source?.kind === 'snapshot'
  if (whole) return stepFor(release, folders.source, sourceNames)
  if (release.path === '' && configNames.some(name => sourceNames.includes(name))) await checkProgram(release, folders)
  const bringsDependencyFile = release.path === '' && sourceNames.some(name => !configNames.includes(name))
  const otherRuntime = app?.language !== release.language || app.runtime_version !== release.runtimeVersion
  if (!bringsDependencyFile && !otherRuntime && !(await bringsMember(release, folders))) {
    const changesFiles = await hasOthers(folders.source, release.path === '' ? configNames : [])
    const kept = await keptPlan(release, folders, { serving, wanted, changesFiles, mayKeep })
    if (kept) return kept
  }
  if (!(await installsOver(release, folders, wanted, sourceNames))) return nothing
  const { number, path, ownerId: account } = release
  await layReleaseOver({ volume, release: number, path, owner, account }, signal)
  const step = await stepFor(release, folders.build, await namesIn(folders.build, wanted))
  // The application may have changed its files since.
  if (step.install === null) await removeWhole(volume, folders.build)
  return step
}

interface KeptTerms extends Pick<InstallPlace, 'mayKeep'> {
  /** Number of the release that serves. */
  serving: number
  wanted: readonly string[]
  changesFiles: boolean
}

/** The plan of an upload that decides nothing about the install step of the application's files, if that needs not run; null where it does. */
async function keptPlan(
  release: Release,
  folders: ReleaseFolders,
  { serving, wanted, changesFiles, mayKeep }: KeptTerms,
): Promise<Prepared | null> {
  const { dependencies } = runtimes[release.language]
  const hasFiles = dependencies !== null && (await exists(folders.files))
  const step = hasFiles ? await stepFor(release, folders.files, await namesIn(folders.files, wanted)) : null
  const compiles = dependencies?.at === compiledAt
  if (compiles && step?.install === null) return step
  const readsAll = step !== null && step.install !== null && !step.inputs
  const lender = await lenderOf(folders.volume, serving)
  if (lender === 'lost' || (readsAll && (compiles || changesFiles))) return null
  const isKept = await mayKeep({ step: compiles ? step : null, changesFiles })
  return isKept ? { install: null, dependenciesOf: lender } : null
}

const nothing: Prepared = { install: null, dependenciesOf: null }

/** Whether the files of the application with an upload laid over them have an install step: else a copy of them all would be made for nothing. */
async function installsOver(
  release: Release,
  folders: ReleaseFolders,
  wanted: readonly string[],
  sourceNames: readonly string[],
): Promise<boolean> {
  const brought = release.path === '' ? sourceNames : []
  const present = (await exists(folders.files)) ? await namesIn(folders.files, wanted) : []
  const folderOf = (name: string) => (brought.includes(name) ? folders.source : folders.files)
  return (await installOf(release, folderOf, [...new Set([...present, ...brought])])) !== null
}

/** Max bytes of a dependency file that is looked into. */
const maxLookedInto = MiB

/** Whether an upload may bring a file in a folder from which the application installs along with its root. */
async function bringsMember({ language }: Release, { files, source }: ReleaseFolders): Promise<boolean> {
  const { memberNames, dependencies } = runtimes[language]
  // A disk that was lost has no files, and no members.
  const present = memberNames && (await exists(files))
  const names = present ? await namesIn(files, namesForInstall(language)) : []
  const file = dependencyFile(language, names)
  if (!memberNames || !file || !dependencies) return false
  const text = (await fileIn(files, file, maxLookedInto)) ?? ''
  const isMember = memberNames(text, names)
  return isMember !== null && hasAnywhere(source, isMember, dependencies.from)
}

/** The install step for sources with these names at their root, and what it depends on; none if their dependency file requests nothing. */
async function stepFor(release: Release, folder: string, names: readonly string[]): Promise<Prepared> {
  const { language } = release
  const runtime = runtimes[language]
  const install = await installOf(release, () => folder, names)
  if (install === null || runtime.toolFolders) return { install, dependenciesOf: null }
  const { writtenLock } = runtime
  const plan = { install, dependenciesOf: null, ...(writtenLock && !names.includes(writtenLock) && { writtenLock }) }
  const inputs = await inputsOf(language, folder)
  return 'because' in inputs ? { ...plan, dependencies: notForReuse(inputs.because) } : { ...plan, inputs }
}

/** Shell text of the install step for these names, each of which lies in its folder; null when there is nothing to install. */
async function installOf(
  { language, main }: Release,
  folderOf: (name: string) => string,
  names: readonly string[],
): Promise<string | null> {
  const runtime = runtimes[language]
  const file = dependencyFile(language, names)
  const text = file && runtime.requestsNothing ? await fileIn(folderOf(file), file, maxLookedInto) : null
  return text !== null && runtime.requestsNothing?.(text, names) ? null : runtime.install({ files: names, main })
}

async function inputsOf(language: Language, folder: string): Promise<InstallInputs> {
  const runtime = runtimes[language]
  if (!runtime.installInputs) return { because: 'what is built depends on the sources' }
  const texts = new Map<string, string | null>()
  for (const name of await namesIn(folder, [...namesForInstall(language), ...(runtime.inputNames ?? [])]))
    if (!(await isEmptyFolder(folder, name))) texts.set(name, await fileIn(folder, name, installRules.inputBytes))
  return runtime.installInputs(texts)
}

/** The folder that the install step runs in. */
export async function installFolder(folders: ReleaseFolders): Promise<string> {
  return (await exists(folders.build)) ? folders.build : folders.source
}
