import { type ContainerHost, type ContainerSpec, type ContainerState, labels, PortTaken } from '../containers/port.ts'
import { publishedAt, stopGraceSeconds } from '../containers/spec.ts'
import type { StartedContainer } from './release.ts'

export interface StartTerms {
  /** Two versions of this program must never run concurrently. */
  alone: boolean
  /** Rejects when the start is no longer wanted; called before anything is created or started, unless that was just checked. */
  assertCurrent(): Promise<void>
  /** The container of this name, as it has just ended; omitted = it is looked for. */
  ended?: ContainerState | null
  /** The id of the container, which was created for this spec a moment ago. */
  created?: string | undefined
}

/** Creates or adopts a container and starts it. Running already is success. The caller has just checked that the start is wanted. */
export async function startContainer(
  engine: ContainerHost,
  spec: ContainerSpec,
  { alone, assertCurrent, ended, created }: StartTerms,
): Promise<Pick<StartedContainer, 'containerId' | 'hostPort' | 'hostAddress' | 'startedAt'>> {
  const reusable = created ?? (ended && isUpToDate(ended, spec) ? ended.id : null)
  const isReady = reusable !== null && !alone
  const present = isReady ? reusable : await presentContainer(engine, spec)
  if (alone) await stopOthers(engine, spec)
  if (!isReady) await assertCurrent()
  const containerId = present ?? (await engine.create(spec))
  if (!present) await assertCurrent()
  const state = await engine.start(spec.name)
  const startedAt = state?.startedAt ?? new Date()
  const { hostPort = null, hostAddress = null } = state ?? {}
  return { containerId, hostPort, hostAddress, startedAt: startedAt.toISOString() }
}

/** `startContainer` at another port where a program of the machine listens at the container's own: the engine chooses it. */
export async function startPublished(
  engine: ContainerHost,
  spec: ContainerSpec,
  terms: StartTerms,
): ReturnType<typeof startContainer> {
  try {
    return await startContainer(engine, spec, terms)
  } catch (error) {
    if (!(error instanceof PortTaken)) throw error
    const { alone, assertCurrent } = terms
    await assertCurrent()
    await engine.remove(spec.name)
    return startContainer(engine, publishedAt(spec, undefined), { alone, assertCurrent })
  }
}

/** Creates or adopts a container, not to be started yet; resolves to its id. */
export async function createContainer(
  engine: ContainerHost,
  spec: ContainerSpec,
  { assertCurrent }: Pick<StartTerms, 'assertCurrent'>,
): Promise<string> {
  const present = await presentContainer(engine, spec)
  await assertCurrent()
  return present ?? engine.create(spec)
}

/** The id of the container, null without one. Removes one that was created from other settings than its application has now. */
async function presentContainer(engine: ContainerHost, spec: ContainerSpec): Promise<string | null> {
  const present = await engine.inspect(spec.name)
  if (!present) return null
  if (isUpToDate(present, spec)) return present.id
  if (present.running) await engine.stop(spec.name, spec.stopTimeoutSeconds)
  await engine.remove(spec.name)
  return null
}

const isUpToDate = (present: ContainerState, spec: ContainerSpec): boolean =>
  present.labels[labels.spec] === spec.labels[labels.spec]

/** The version that served is stopped already; a container that an abandoned start has started meanwhile is not. */
async function stopOthers(engine: ContainerHost, spec: ContainerSpec): Promise<void> {
  const { [labels.host]: host, [labels.app]: app, [labels.role]: role } = spec.labels
  const versions = await engine.list({ [labels.host]: host!, [labels.app]: app!, [labels.role]: role! })
  for (const { name, running } of versions) if (running && name !== spec.name) await engine.stop(name, stopGraceSeconds)
}
