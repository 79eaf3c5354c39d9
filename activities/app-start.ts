import { type ContainerHost, type ContainerSpec, labels } from './container-host.ts'
import { stopGraceSeconds } from './container-spec.ts'
import type { StartedContainer } from './release.ts'

/** Creates or adopts a container and starts it. Running already is success. */
export async function startContainer(
  engine: ContainerHost,
  spec: ContainerSpec,
): Promise<Pick<StartedContainer, 'containerId' | 'hostPort' | 'startedAt'>> {
  await removeOutdated(engine, spec)
  const containerId = await engine.create(spec)
  await engine.start(spec.name)
  const state = await engine.inspect(spec.name)
  const startedAt = state?.startedAt ?? new Date()
  return { containerId, hostPort: state?.hostPort ?? null, startedAt: startedAt.toISOString() }
}

/** A container that was made from other settings than its application has now is made anew. */
async function removeOutdated(engine: ContainerHost, spec: ContainerSpec): Promise<void> {
  const present = await engine.inspect(spec.name)
  if (!present || present.labels[labels.spec] === spec.labels[labels.spec]) return
  if (present.running) await engine.stop(spec.name, stopGraceSeconds)
  await engine.remove(spec.name)
}
