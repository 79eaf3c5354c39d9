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

/** Brings images: present, pulled, or made here by the recipes. Rejects with what went wrong. */
export async function ensureImages(images: string[], dockerAddress: string, say: Say): Promise<void> {
  const engine = dockerHost({ dockerHost: dockerAddress, makeRootfs: makerThatInstalls(say) })
  for (const image of images) {
    await step(say, `preparing the image ${image}`, () => engine.ensureImage(image))
  }
}

/** Making an image needs mmdebstrap, which is only installed when an image must really be made. */
function makerThatInstalls(say: Say): ReturnType<typeof rootfsMaker> {
  const make = rootfsMaker(join(cacheFolder(), 'images'))
  return async (image, onProgress) => {
    if (isRoot() && !findProgram('mmdebstrap', process.env.PATH))
      await installPackages(
        { what: 'mmdebstrap (with which images are made where no registry answers)', packages: ['mmdebstrap'] },
        say,
      )
    return make(image, onProgress)
  }
}
