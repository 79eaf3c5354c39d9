import { join } from 'node:path'
import { dockerHost } from '../../activities/containers/docker/host.ts'
import { runtimes } from '../../policy/runtimes.ts'
import { rootfsMaker } from '../../runtimes/rootfs.ts'
import { type Say, step } from '../terminal/terminal.ts'
import { findProgram, installPackages, isRoot } from './system-packages.ts'
import { cacheFolder } from './temporal-binary.ts'

/** The images that every installation should have before the first upload. */
export function firstImages(): string[] {
  return [runtimes.javascript, runtimes.python, runtimes.static].map(runtime => runtime.image(runtime.recommended))
}

/** Makes images available: already present, pulled, or built here by the recipes. Rejects with the reason. */
export async function ensureImages(images: string[], dockerAddress: string, say: Say): Promise<void> {
  const engine = dockerHost({ dockerHost: dockerAddress, makeRootfs: makerThatInstalls(say) })
  for (const image of images) {
    await step(say, `preparing the image ${image}`, () => engine.ensureImage(image))
  }
}

/** Building an image needs mmdebstrap, which is installed only when an image must be built. */
function makerThatInstalls(say: Say): ReturnType<typeof rootfsMaker> {
  const make = rootfsMaker(join(cacheFolder(), 'images'))
  return async (image, onProgress) => {
    if (isRoot() && !findProgram('mmdebstrap', process.env.PATH))
      await installPackages(
        { what: 'mmdebstrap (which builds images where no registry answers)', packages: ['mmdebstrap'] },
        say,
      )
    return make(image, onProgress)
  }
}
