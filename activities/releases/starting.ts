import { cancellationSignal } from '@temporalio/activity'
import * as apps from '../../db/apps/apps.ts'
import type { AppHostOptions } from '../app-host-options.ts'
import type { ContainerSpec, ContainerState } from '../containers/port.ts'
import { appContainer, fingerprinted, tenantNetwork } from '../containers/spec.ts'
import type { guardedSteps } from '../steps/guarded-steps.ts'
import { dependenciesOf, releaseFolders } from './files.ts'
import { imageOfStep } from './image-step.ts'
import { releasePlacement } from './placement-request.ts'
import type { Release, StartedContainer } from './release.ts'
import { startContainer } from './start.ts'

/** A start that lacks nothing but its turn. */
interface ReadyStart {
  release: Release
  spec: ContainerSpec
  bootId: string
  variablesVersion: number
}

/** Starts of releases at their host, in two parts: the first one may be done while another container still runs, or ends. */
export function releaseStarts(
  host: AppHostOptions,
  { turn, assertCurrent }: Pick<ReturnType<typeof guardedSteps>, 'turn' | 'assertCurrent'>,
) {
  const { db, engine, volumes } = host
  const { ownerUid } = releasePlacement(host)

  return {
    /** Provides everything that the container of a release needs. A command waits at most `seconds` for its image. */
    async ready(
      { operationId, release }: { operationId: string; release: Release },
      seconds: number | null,
    ): Promise<ReadyStart> {
      const folder = volumes.path(release.appId)
      const uid = ownerUid(release)
      const { version, values } = await host.variables(release)
      await volumes.ensure(release.appId, release.diskMb, uid, 'before')
      const dependencies = await dependenciesOf(folder, release.number)
      const disk = await host.disk?.(release.appId)
      const places = { files: releaseFolders(folder, release.number).files, dependencies }
      const spec = fingerprinted({ ...appContainer({ ...release, uid }, places, values, host.traits), disk })
      await engine.ensureNetwork(tenantNetwork(release.ownerId, host.traits.id))
      await imageOfStep(host, { operationId, release, image: spec.image, seconds, signal: cancellationSignal() })
      const bootId = await host.boot.settle()
      if (spec.publish) await host.routed?.(cancellationSignal())
      return { release, spec, bootId, variablesVersion: version }
    },

    /** `ended` is the state of its container, for a caller that has just stopped it. */
    async start(
      name: 'startRelease' | 'startApp',
      { release, spec, ...facts }: ReadyStart,
      ended?: ContainerState | null,
    ): Promise<StartedContainer> {
      const alone = release.hostname === null
      const started = await turn(name, release, step =>
        startContainer(engine, spec, { alone, ended, assertCurrent: () => assertCurrent(step) }),
      )
      const { hostPort, hostAddress } = started
      if (hostPort !== null) await apps.clearPortOfOthers(db, release.appId, hostPort, hostAddress)
      return { ...started, ...facts }
    },
  }
}
