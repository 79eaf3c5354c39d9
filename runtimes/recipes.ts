import { runtimes } from '../policy/runtimes.ts'
import { databaseRecipes } from './database-recipes.ts'
import { pathOf, type Recipe } from './recipe.ts'

const common = ['ca-certificates', 'tzdata']

/** The npm client that is installed with every Node: it supports all versions of the table. */
const npmClient = 'npm@10.9.9'

function nodeRecipe(version: string, arch: string): Recipe {
  const binary = `node-linux-${arch}`
  return {
    image: runtimes.javascript.image(version),
    suite: 'bookworm',
    packages: [...common, 'libstdc++6'],
    npm: [`${binary}@${runtimes.javascript.full?.[version]}`, npmClient],
    steps: [
      `tar -xzf "$2"/${binary}-*.tgz -C "$1/usr/local" --strip-components=1 --no-same-owner package/bin/node`,
      'mkdir -p "$1/usr/local/lib/node_modules/npm"',
      'tar -xzf "$2"/npm-[0-9]*.tgz -C "$1/usr/local/lib/node_modules/npm" --strip-components=1 --no-same-owner',
      'ln -s ../lib/node_modules/npm/bin/npm-cli.js "$1/usr/local/bin/npm"',
      'ln -s ../lib/node_modules/npm/bin/npx-cli.js "$1/usr/local/bin/npx"',
      'chmod 0755 "$1/usr/local/bin/node" "$1"/usr/local/lib/node_modules/npm/bin/*.js',
    ],
    changes: [pathOf(), 'CMD ["node"]'],
  }
}

const pythonRecipe: Recipe = {
  image: runtimes.python.image('3.11'),
  suite: 'bookworm',
  packages: [...common, 'python3', 'python3-pip', 'python-is-python3'],
  npm: [],
  // `--target` never touches the distribution's own packages, which the marker protects.
  steps: ['rm -f "$1"/usr/lib/python3.*/EXTERNALLY-MANAGED'],
  changes: ['CMD ["python3"]'],
}

const staticRecipe: Recipe = {
  image: runtimes.static.image('1'),
  suite: 'bookworm',
  packages: [...common, 'nginx-light'],
  npm: [],
  steps: ['rm -rf "$1"/etc/nginx/sites-enabled "$1"/var/www/html'],
  changes: ['CMD ["nginx"]'],
}

/** The distribution has each Go in a folder of its version; no suite has 1.25. */
const goFolder = '/usr/lib/go-1.24'

const goRecipe: Recipe = {
  image: runtimes.go.image('1.24'),
  suite: 'trixie',
  packages: [...common, 'golang-1.24-go'],
  excluded: ['/usr/share/go-1.24/test/*', '/usr/share/go-1.24/src/*/testdata/*'],
  npm: [],
  steps: [],
  changes: [pathOf(`${goFolder}/bin`), 'CMD ["go"]'],
}

/** All images that can be made on a machine of this architecture (`process.arch`). */
export function recipes(arch: string): Recipe[] {
  const node = runtimes.javascript.versions.map(version => nodeRecipe(version, arch))
  return [...node, pythonRecipe, staticRecipe, goRecipe, ...databaseRecipes]
}
