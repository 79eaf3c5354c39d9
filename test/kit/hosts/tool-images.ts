import type { AppHostOptions } from '../../../activities/app-host-options.ts'
import type { Recipe } from '../../../runtimes/recipe.ts'

/** Tools of languages whose images only a registry has, from packages of the distribution, for tests of what builds give to these tools. */
export const toolImages = { java: 'berth/test-java:21', rust: 'berth/test-rust:1.85' } as const

export const toolRecipes: readonly Recipe[] = [
  {
    image: toolImages.java,
    suite: 'trixie',
    packages: ['ca-certificates', 'openjdk-21-jre-headless', 'maven'],
    npm: [],
    // The packages make links there.
    before: ['mkdir -p "$1/usr/share/man/man1"'],
    steps: [],
    changes: ['CMD ["mvn"]'],
  },
  {
    image: toolImages.rust,
    suite: 'trixie',
    packages: ['ca-certificates', 'cargo'],
    npm: [],
    steps: [],
    changes: ['CMD ["cargo"]'],
  },
]

type Engine = AppHostOptions['engine']

/** The engine with these images in the place of those that only a registry has. */
export function withToolImages<Given extends Pick<Engine, 'ensureImage' | 'runToEnd'>>(engine: Given): Given {
  const standIn = (image: string) =>
    image.startsWith('maven:') ? toolImages.java : image.startsWith('rust:') ? toolImages.rust : image
  return {
    ...engine,
    ensureImage: (image, ...rest) => engine.ensureImage(standIn(image), ...rest),
    runToEnd: (spec, ...rest) => engine.runToEnd({ ...spec, image: standIn(spec.image) }, ...rest),
  }
}
