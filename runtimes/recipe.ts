/** How to make an image under `berth/` on this machine when no image registry answers. */
export interface Recipe {
  image: string
  suite: 'bookworm' | 'trixie' | 'sid'
  /** Packages of the distribution in addition to the essential ones. */
  packages: readonly string[]
  /** Paths of the packages that the image does not need, as patterns of the package tool. */
  excluded?: readonly string[]
  /** Exactly pinned npm packages; the steps find them in the folder `$2`. */
  npm: readonly string[]
  /** Exactly pinned wheels (runtimes/pypi-packages.ts); the steps find them in the folder `$2`. */
  pypi?: readonly string[]
  /** Text files that the steps find in the folder `$2`, by name. */
  files?: Readonly<Record<string, string>>
  /** Shell steps before the packages are installed, but for the essential ones; `$1` is the root of the file system. */
  before?: readonly string[]
  /** Shell steps on the finished file system; `$1` is its root, `$2` the folder with the fetched packages and the files. */
  steps: readonly string[]
  /** Dockerfile instructions of the imported image. */
  changes: readonly string[]
}

const systemFolders = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'

/** The Dockerfile instruction with which programs are found by their bare names, first in `folders`. */
export const pathOf = (...folders: string[]): string => `ENV PATH=${[...folders, systemFolders].join(':')}`
