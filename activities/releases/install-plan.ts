import { isDeepStrictEqual } from 'node:util'
import type { AppRow } from '../../db/apps/apps.ts'
import { MiB } from '../../lib/bytes.ts'
import type { Owner } from '../../lib/folders/owner.ts'
import { installRules, notForReuse } from '../../policy/hosts/installs.ts'
import type { InstallInputs } from '../../policy/runtimes/runtime.ts'
import { dependencyFile, type Language, namesForInstall, namesThatInstall, runtimes } from '../../policy/runtimes.ts'
import { removeWhole } from '../app-files/trash.ts'
import { inputFiles, layInputs } from '../installs/inputs.ts'
import { layReleaseOver } from '../overlay/process.ts'
import { exists, lenderOf, type Prepared, type ReleaseFolders, releaseFolders } from './files.ts'
import { checkProgram } from './program-check.ts'
import type { Release } from './release.ts'
import {
  bytesInLayers,
  fileIn,
  hasAnywhere,
  hasOthers,
  isEmptyInLayers,
  type Layers,
  namesIn,
  namesInLayers,
} from './root-names.ts'

/** Compilers write here: any change of the sources needs a new run. What pip and bundler install lies there too. */
const compiledAt = '/opt/build'

/** How an application changes whose dependencies are to be kept. */
export interface KeptWith {
  /** The step of which they must be the result; null where only image and certificates count. */
  step: Prepared | null
  /** Whether a file changes that the step before may have read; the configuration is for Berth alone. */
  changesFiles: boolean
  /** The release in whose folder they are (`lenderOf`). */
  lender: number | null
}

/** The plan of an install step, and the files that it was made for. */
export interface PlannedOn {
  plan: Prepared
  layers: Layers
}

export interface InstallPlace {
  volume: string
  /** The row before this release. */
  app: AppRow | undefined
  owner: Owner | null
  configNames: readonly string[]
  /** Whether what the serving release has installed may serve this one too. */
  mayKeep(kept: KeptWith): Promise<boolean>
  /** The plan with the result of an earlier step instead, where there is one that depended on the same. */
  reuse(planned: PlannedOn): Promise<Prepared>
  /** Stops the copying of files. */
  signal: AbortSignal
}

/**
 * Decides the install step of a release. A whole program (a first upload, a commit, a snapshot) is installed from its own files.
 * An upload of some files keeps the dependencies of the serving release, unless it may not, brings dependency or lock files, settings of
 * their tools, a dependency file of a workspace, another runtime, or any file where the step may read all, or is compiled: then it is
 * installed from the application's files with the upload laid over them. Throws INVALID_MAIN, MISSING_DEPENDENCIES_FILE, and as
 * `layReleaseOver` does.
 */
export async function planInstall(release: Release, place: InstallPlace): Promise<Prepared> {
  const { volume, app, configNames, mayKeep, reuse } = place
  const folders = releaseFolders(volume, release.number)
  const wanted = [...namesThatInstall(release.language), ...configNames]
  const sourceNames = await namesIn(folders.source, wanted)
  const serving = app?.release ?? 0
  const whole = serving === 0 || release.source?.kind === 'git' || release.source?.kind === 'snapshot'
  if (whole) {
    const layers = [folders.source]
    return reuse({ plan: await stepFor(release, layers, sourceNames), layers })
  }
  if (release.path === '' && configNames.some(name => sourceNames.includes(name))) await checkProgram(release, folders)
  const bringsDependencyFile = release.path === '' && sourceNames.some(name => !configNames.includes(name))
  const otherRuntime = app?.language !== release.language || app.runtime_version !== release.runtimeVersion
  if (!bringsDependencyFile && !otherRuntime && !(await bringsMember(release, folders))) {
    const changesFiles = await hasOthers(folders.source, release.path === '' ? configNames : [])
    const kept = await keptPlan(release, folders, { serving, wanted, changesFiles, mayKeep })
    if (kept) return reuse({ plan: kept, layers: [folders.files] })
  }
  return planOver(release, folders, wanted, place)
}

/**
 * The plan for the application's files with an upload laid over them. They are copied only for a step that may read all of them: nothing is
 * copied for a result that is used again, and no more than its inputs for a step that sees only these.
 */
async function planOver(
  release: Release,
  folders: ReleaseFolders,
  wanted: readonly string[],
  { volume, owner, reuse, signal }: InstallPlace,
): Promise<Prepared> {
  const { number, path, ownerId: account } = release
  // Below another folder an upload brings nothing that is looked for at the root.
  const above = path === '' ? [folders.source] : []
  const layers = (await exists(folders.files)) ? [...above, folders.files] : above
  const plan = await stepFor(release, layers, await namesInLayers(layers, wanted))
  if (plan.install === null) return nothing
  // There its files may be inputs too, or lie where one does.
  const reused = path === '' ? await reuse({ plan, layers }) : null
  if (reused?.install === null) return reused
  if (reused?.inputs && !reused.inputs.isShownAfter) {
    const files = await inputFiles(layers, reused.inputs.files)
    if (!('because' in files)) {
      await layInputs(folders, files, owner, 'build')
      return reused
    }
  }
  await layReleaseOver({ volume, release: number, path, owner, account }, signal)
  const copied = [folders.build]
  const step = await stepFor(release, copied, await namesInLayers(copied, wanted))
  // The application may have changed its files since.
  if (reused && isDeepStrictEqual(step, plan)) return reused
  if (step.install === null) await removeWhole(volume, folders.build)
  return reuse({ plan: step, layers: copied })
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
  const step = hasFiles ? await stepFor(release, [folders.files], await namesIn(folders.files, wanted)) : null
  const compiles = dependencies?.at === compiledAt
  if (compiles && step?.install === null) return step
  const readsAll = step !== null && step.install !== null && !step.inputs
  const lender = await lenderOf(folders.volume, serving)
  if (lender === 'lost' || (readsAll && (compiles || changesFiles))) return null
  const isKept = await mayKeep({ step: compiles ? step : null, changesFiles, lender })
  return isKept ? { install: null, dependenciesOf: lender } : null
}

const nothing: Prepared = { install: null, dependenciesOf: null }

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
async function stepFor(release: Release, layers: Layers, names: readonly string[]): Promise<Prepared> {
  const { language } = release
  const runtime = runtimes[language]
  const install = await installOf(release, layers, names)
  if (install === null || runtime.toolFolders) return { install, dependenciesOf: null }
  const { writtenLock } = runtime
  const plan = { install, dependenciesOf: null, ...(writtenLock && !names.includes(writtenLock) && { writtenLock }) }
  const inputs = await inputsOf(language, layers)
  return 'because' in inputs ? { ...plan, dependencies: notForReuse(inputs.because) } : { ...plan, inputs }
}

/** Shell text of the install step for sources with these names; null when there is nothing to install. */
async function installOf(
  { language, main }: Release,
  layers: Layers,
  names: readonly string[],
): Promise<string | null> {
  const runtime = runtimes[language]
  const file = dependencyFile(language, names)
  const text = file && runtime.requestsNothing ? await textIn(layers, file, maxLookedInto) : null
  return text !== null && runtime.requestsNothing?.(text, names) ? null : runtime.install({ files: names, main })
}

async function textIn(layers: Layers, name: string, maxBytes: number): Promise<string | null> {
  return (await bytesInLayers(layers, name, maxBytes))?.toString('utf8') ?? null
}

async function inputsOf(language: Language, layers: Layers): Promise<InstallInputs> {
  const runtime = runtimes[language]
  if (!runtime.installInputs) return { because: 'what is built depends on the sources' }
  const texts = new Map<string, string | null>()
  for (const name of await namesInLayers(layers, [...namesForInstall(language), ...(runtime.inputNames ?? [])]))
    if (!(await isEmptyInLayers(layers, name))) texts.set(name, await textIn(layers, name, installRules.inputBytes))
  return runtime.installInputs(texts)
}

/** The folder that the install step runs in. */
export async function installFolder(folders: ReleaseFolders): Promise<string> {
  return (await exists(folders.build)) ? folders.build : folders.source
}
