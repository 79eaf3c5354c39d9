import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { mongoStandIn } from '../policy/databases/mongo.ts'
import { mysql } from '../policy/databases/mysql.ts'
import { postgres } from '../policy/databases/postgres.ts'
import { redis } from '../policy/databases/redis.ts'
import { standInWheels } from './pypi-packages.ts'
import { pathOf, type Recipe } from './recipe.ts'

/** Scripts of packages need these modules while they are installed; no engine does. */
const withoutPerl = 'rm -rf "$1"/usr/share/perl "$1"/usr/lib/*-linux-gnu/perl'

/** The distribution has one PostgreSQL for each suite, in a folder of its major version. */
const postgresRecipe: Recipe = {
  image: postgres.image('17'),
  suite: 'trixie',
  packages: ['postgresql-17'],
  npm: [],
  // The compiler of queries, which settings of databases turn off: two thirds of the image. Locales are compiled from the sources below i18n.
  excluded: [
    '/usr/lib/*-linux-gnu/libLLVM*',
    '/usr/lib/llvm-*',
    '/usr/lib/*-linux-gnu/libz3*',
    '/usr/lib/postgresql/*/lib/llvmjit*',
    '/usr/lib/postgresql/*/lib/bitcode/*',
    '/usr/share/i18n/*',
  ],
  before: [
    'mkdir -p "$1/etc/postgresql-common"',
    'echo "create_main_cluster = false" > "$1/etc/postgresql-common/createcluster.conf"',
  ],
  steps: ['rm -rf "$1"/var/lib/postgresql/* "$1"/etc/postgresql/*', withoutPerl],
  changes: [pathOf('/usr/lib/postgresql/17/bin'), 'CMD ["postgres"]'],
}

const mysqlRecipe: Recipe = {
  image: mysql.image('9'),
  suite: 'sid',
  packages: ['mysql-server-core', 'mysql-client-core', 'tzdata'],
  npm: [],
  excluded: [
    // Logins of clients by external services, and what its authors test with.
    ...['*_client.so', '*test*', '*example*', 'ha_mock*'].map(name => `/usr/lib/mysql/plugin/${name}`),
    ...['myisam*', 'mysqlslap', 'mysqlimport', 'mysqlshow', 'mysql_migrate_keyring', 'mysql_secure_installation'].map(
      name => `/usr/bin/${name}`,
    ),
  ],
  steps: [withoutPerl],
  changes: [pathOf(), 'CMD ["mysqld"]'],
}

const redisRecipe = (version: string, suite: Recipe['suite']): Recipe => ({
  image: redis.image(version),
  suite,
  packages: ['redis-server'],
  npm: [],
  steps: [withoutPerl],
  changes: [pathOf(), 'CMD ["redis-server"]'],
})

const packagesFolder = '/usr/lib/mongo-stand-in'
const programOf = (file: string) => readFileSync(new URL(`./mongo-stand-in/${file}`, import.meta.url), 'utf8')
const standInFiles = { mongod: programOf('mongod.py'), 'mongod_writes.py': programOf('mongod_writes.py') }

/** Label of an image with one of our programs: which one, so that an image with an older one is recognized. */
export const programLabel = 'berth.program'

/** Digest of our program in an image; null for an image without one. */
export const ownProgram = (image: string): string | null =>
  image === mongoStandInRecipe.image
    ? createHash('sha256').update(Object.values(standInFiles).join('')).digest('hex').slice(0, 12)
    : null

const mongoStandInRecipe: Recipe = {
  image: mongoStandIn.image('8'),
  suite: 'bookworm',
  packages: ['python3', 'python3-yaml', 'libstdc++6'],
  npm: [],
  pypi: standInWheels,
  files: standInFiles,
  steps: [
    `mkdir -p "$1${packagesFolder}"`,
    `for wheel in "$2"/*.whl; do python3 -m zipfile -e "$wheel" "$1${packagesFolder}"; done`,
    `find "$1${packagesFolder}" -type d -name tests -prune -exec rm -r {} +`,
    'install -m 0755 "$2/mongod" "$1/usr/local/bin/mongod"',
    `install -m 0644 "$2/mongod_writes.py" "$1${packagesFolder}/"`,
    // The root is read-only at run time, so that nothing could be compiled then.
    `chroot "$1" python3 -m compileall -q ${packagesFolder}`,
  ],
  changes: [pathOf(), `ENV PYTHONPATH=${packagesFolder}`, 'CMD ["mongod"]'],
}

/** The images of all engines and versions on offer, on every architecture. */
export const databaseRecipes: readonly Recipe[] = [
  postgresRecipe,
  mysqlRecipe,
  redisRecipe('8', 'trixie'),
  redisRecipe('7', 'bookworm'),
  mongoStandInRecipe,
]
