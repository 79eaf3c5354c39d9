import { cancellationSignal } from '@temporalio/activity'
import { runtimes } from '../../policy/runtimes.ts'
import { hosted } from '../failures.ts'
import type { AppHostOptions } from '../hosts/app-host-options.ts'
import { imageOfStep } from '../releases/image-step.ts'
import type { StepOf } from '../releases/release.ts'
import { guardedSteps } from './guarded-steps.ts'

export type BuildImages = ReturnType<typeof buildImages>

/** What steps in a build slot await before they take it: others can build while an image is pulled for minutes. */
export function buildImages(host: AppHostOptions) {
  const { begin } = guardedSteps(host)
  return hosted({
    async installDependencies(input: StepOf): Promise<void> {
      const step = await begin('installDependencies', input)
      const release = step.brought()
      const image = runtimes[release.language].buildImage(release.runtimeVersion)
      const { operationId } = step
      await imageOfStep(host, { operationId, release, image, seconds: null, signal: cancellationSignal() })
    },
  })
}
