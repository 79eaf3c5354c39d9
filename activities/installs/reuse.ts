import { ignoreError } from '../../lib/async/ignore-error.ts'
import {
  changedFacts,
  type InstallFacts,
  isFresh,
  isSameApartFromFiles,
  notForReuse,
} from '../../policy/hosts/installs.ts'
import { removeWhole } from '../app-files/trash.ts'
import { buildTraits } from '../builds/build-traits.ts'
import { buildContainer } from '../containers/spec.ts'
import type { AppHostOptions } from '../hosts/app-host-options.ts'
import { exists, type Prepared, type ReleaseFolders, readPrepared, releaseFolders } from '../releases/files.ts'
import type { KeptWith, PlannedOn } from '../releases/install-plan.ts'
import type { Release } from '../releases/release.ts'
import { type Earlier, earlierWith, forgetResult, installDigestOf, recordOf, resultOf } from './earlier.ts'
import { inputFiles } from './inputs.ts'
import { certificatesIn, type InstallDependsOn, installFacts, installKey } from './key.ts'
import { unpackStored } from './stored.ts'

/** A digest that is being made while the files of a release are still on their way. */
export interface Ahead {
  /** The digest of this release. Null when it is not the one that is being made: that is ended then, as it would keep the account's slot. */
  digestOf(release: number): Promise<{ digest: string }> | null
  end(): void
}

export interface ReuseTerms {
  /** Number of the release that serves; 0 = none. */
  serving: number
  ahead: Ahead | null
  /** Nothing that was installed before is used. */
  isClean: boolean
  signal: AbortSignal
}

/** Starts the digest of what the serving release uses: after most pushes it is used again. Null when there is nothing to use again. */
export async function digestAhead(
  host: AppHostOptions,
  { ownerId }: Release,
  volume: string,
  serving: number,
  signal: AbortSignal,
): Promise<Ahead | null> {
  const result = serving > 0 ? await resultOf(volume, serving) : null
  if (!result || typeof result === 'string') return null
  const ended = new AbortController()
  const { dependencies } = releaseFolders(volume, result.release)
  const digest = installDigestOf(host.snapshots, dependencies, ownerId, AbortSignal.any([signal, ended.signal]))
  digest.catch(ignoreError('reported to the caller that awaits it'))
  const end = () => ended.abort(new Error('The digest is not needed.'))
  return {
    end,
    digestOf(release) {
      if (release !== result.release) end()
      return ended.signal.aborted ? null : digest
    },
  }
}

/**
 * Whether what the serving release has installed may serve this one too, which brings no dependency files: everything that it depends on
 * besides files is as it was, and no file changes where its step may have read any. No digest is made: a small commit would wait for
 * nothing else, and the program that serves uses these files too. Where `step` is given the result must be one of exactly that.
 */
export async function mayKeepInstalled(
  host: AppHostOptions,
  release: Release,
  folders: ReleaseFolders,
  serving: number,
  { step, changesFiles, lender }: KeptWith,
): Promise<boolean> {
  // Not of one that its marker names: a later one that lent its dependencies without a restart may have been undone.
  const number = lender ?? serving
  const prepared = await readPrepared(releaseFolders(folders.volume, number))
  if (prepared?.isDamaged || prepared?.isForsaken) return false
  const { installed, isOfAll } = prepared ?? {}
  const before = installed?.facts ?? prepared?.facts
  // Either nothing was installed, or older versions recorded nothing of what was not for reuse.
  if (!before) return step === null && !(await exists(releaseFolders(folders.volume, number).dependencies))
  if (isOfAll && changesFiles) return false
  const files = step ? await inputFiles([folders.files], step.inputs!.files) : new Map()
  if ('because' in files) return false
  const facts = await factsWith(host, release, folders, step?.install ?? '', files)
  if (!facts) return false
  return step ? installKey(facts) === installed?.key : isSameApartFromFiles(before, facts)
}

/**
 * Replaces the planned install step of a release by the result of an earlier one that depended on exactly the same, once its digest proves
 * that it is as it was installed. Otherwise the plan stays, with the reason in words.
 */
export async function reuseInstall(
  host: AppHostOptions,
  release: Release,
  folders: ReleaseFolders,
  { plan, layers }: PlannedOn,
  terms: ReuseTerms,
): Promise<Prepared> {
  if (plan.install === null && plan.dependenciesOf !== null)
    return { ...plan, dependencies: `those of release ${plan.dependenciesOf}: the upload brings no others` }
  if (!plan.install || !plan.inputs) return plan
  const anew = (why: string): Prepared => ({ ...plan, dependencies: `installed anew: ${why}` })
  const amongAll = (why: string): Prepared => ({ ...plan, inputs: undefined, dependencies: notForReuse(why) })
  const files = await inputFiles(layers, plan.inputs.files)
  if ('because' in files) return amongAll(files.because)
  if (terms.isClean) return anew('a build without the cache was requested')
  const facts = await factsWith(host, release, folders, plan.install, files)
  if (!facts) return anew('the image for it is not at the host yet')
  const key = installKey(facts)
  let firstFault: string | null = null
  for (const earlier of await earlierWith(folders.volume, release.number, key)) {
    const fault = await faultOf(host, release, folders, earlier, terms)
    firstFault ??= fault
    if (fault) continue
    await removeWhole(folders.volume, folders.build)
    await host.installs?.use(release.ownerId, key)
    const dependencies = `reused from release ${earlier.release}, installed at ${earlier.installed.at}`
    return { install: null, dependenciesOf: earlier.release, dependencies }
  }
  // It would keep one of the account's slots.
  terms.ahead?.end()
  const stored = await unpackStored(
    host,
    release,
    folders,
    { key, facts, isPinned: plan.inputs.isPinned },
    terms.signal,
  )
  if (stored === 'damaged') return anew(firstFault ?? 'the stored result was damaged')
  if (stored) return { install: null, dependenciesOf: null, ...stored }
  if (firstFault) return anew(firstFault)
  const { needsMore } = (await recordOf(folders.volume, terms.serving)).prepared ?? {}
  if (needsMore?.key === key) return { ...amongAll(needsMore.because), needsMore }
  const before = await resultOf(folders.volume, terms.serving)
  if (before === 'damaged') return anew('the earlier result was damaged')
  if (before === 'forsaken') return anew('a build without the cache was begun since')
  return anew(before ? changesSince(before, facts) : 'there is no earlier result')
}

/** Null while the image is missing: nothing can depend on it yet. */
async function factsWith(
  host: AppHostOptions,
  release: Release,
  folders: ReleaseFolders,
  install: string,
  files: InstallDependsOn['files'],
): Promise<InstallFacts | null> {
  const traits = await buildTraits(host)
  const spec = buildContainer(release, folders.install, install, traits)
  const imageId = await host.engine.imageId(spec.image)
  if (imageId === null) return null
  const certificates = await certificatesIn(traits.caBundle)
  return installFacts({ release, spec, imageId, architecture: process.arch, certificates, files })
}

/** Why an earlier result cannot be used; null when it is as it was installed. A damaged one is not tried again. */
async function faultOf(
  { snapshots, warn }: AppHostOptions,
  { ownerId, appId }: Release,
  { volume }: ReleaseFolders,
  { release, installed }: Earlier,
  { ahead, signal }: ReuseTerms,
): Promise<string | null> {
  const folder = releaseFolders(volume, release).dependencies
  const work = ahead?.digestOf(release) ?? installDigestOf(snapshots, folder, ownerId, signal)
  const digest = await work.then(({ digest }) => digest).catch((error: Error) => error)
  signal.throwIfAborted()
  if (digest === installed.digest) return null
  if (typeof digest !== 'string') {
    warn?.({ appId, release, err: digest }, 'installs: the files of a release could not be verified')
    return `the files of release ${release} could not be verified`
  }
  await forgetResult(volume, release, 'damaged')
  warn?.({ appId, release }, 'installs: the files of a release are not as they were installed')
  return `the files of release ${release} are not as they were installed`
}

function changesSince({ release, installed }: Earlier, facts: InstallFacts): string {
  const changes = changedFacts(installed.facts, facts)
  if (changes.length > 0) return `since release ${release} changed ${changes.join(', ')}`
  return isFresh(Date.parse(installed.at), installed.isPinned, Date.now())
    ? `the result of release ${release} is no longer there`
    : `the result of release ${release} is too old, as not every version is pinned`
}
