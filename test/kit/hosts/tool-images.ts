import type { AppHostOptions } from '../../../activities/hosts/app-host-options.ts'
import type { Recipe } from '../../../runtimes/recipe.ts'

/** Tools of languages whose images only a registry has, from packages of the distribution, for tests of what builds give to these tools. */
export const toolImages = {
  java: 'berth/test-java:21',
  php: 'berth/test-php:8.4',
  ruby: 'berth/test-ruby:3.3',
  rust: 'berth/test-rust:1.85',
} as const

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
    image: toolImages.php,
    suite: 'trixie',
    packages: ['ca-certificates', 'composer', 'git', 'unzip'],
    npm: [],
    steps: [],
    changes: ['CMD ["php"]'],
  },
  {
    image: toolImages.ruby,
    suite: 'trixie',
    packages: ['ca-certificates', 'ruby', 'bundler'],
    npm: [],
    steps: [],
    changes: ['CMD ["irb"]'],
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

/** Starts of the names of images that only a registry has. */
const standIns = [
  ['maven:', toolImages.java],
  ['ruby:', toolImages.ruby],
  ['rust:', toolImages.rust],
] as const

type Engine = AppHostOptions['engine']

/** The engine with these images in the place of those that only a registry has. */
export function withToolImages<Given extends Pick<Engine, 'ensureImage' | 'runToEnd'>>(engine: Given): Given {
  const standIn = (image: string) => standIns.find(([start]) => image.startsWith(start))?.[1] ?? image
  return {
    ...engine,
    ensureImage: (image, ...rest) => engine.ensureImage(standIn(image), ...rest),
    runToEnd: (spec, ...rest) => engine.runToEnd({ ...spec, image: standIn(spec.image) }, ...rest),
  }
}
