import { pointInTimeRules } from '../../../../../policy/databases/point-in-time.ts'
import { archiveNames, recoveryNames, recoveryPlace } from '../../../point-in-time/port.ts'
import { places } from '../../../port.ts'

/** Files in the folder of settings. The host owns them, and the engine runs them; they contain nothing of the customer's. */
export const scripts = { archive: 'archive.sh', fetch: 'fetch.sh' } as const

const walName = '[0-9A-F]'.repeat(24)
const folder = `${places.data}/${archiveNames.folder}`
const states = `${places.data}/${archiveNames.states.join('/')}`
/** Its last line is what the engine does now. */
const engineState = `${places.data}/${archiveNames.engineState.join('/')}`
/** Between two looks of an engine for room, and their number. */
const lookSeconds = 0.2
const looks = pointInTimeRules.roomSeconds / lookSeconds

/**
 * Puts a finished WAL file (path, name) into the archive folder, from which the host takes it. The engine removes its own copy after
 * success, so the name appears last, and everything is synced before. A name that is there has the bytes of an earlier attempt, or damage;
 * the engine's own copy is right. Its time is when the engine wrote to it last: what was committed by then is in it or before it. With too
 * many files there, this one waits a little for the host to take one. Then it is left out, and the mark says so: the host begins anew with
 * a base backup, while an engine that waited on would fill the disk. With the mark there, too many files behind it, or an engine that is
 * being stopped, which waits for its files and is killed soon, it does not wait at all.
 */
export const archiveScript = `\
set -eu
case "$2" in ${walName}) ;; *) exit 0 ;; esac
folder=${folder}
mkdir -p "$folder"
count() {
  number=0
  for name in "$@"; do
    if [ -e "$name" ]; then number=$((number + 1)); fi
  done
}
looks=0
while count "$folder"/????????????????????????; [ "$number" -ge ${pointInTimeRules.maxWaiting} ] && [ ! -e "$folder/$2" ]; do
  count ${states}/*${archiveNames.waits}
  case "$(tail -n 1 ${engineState} 2> /dev/null)" in stopping*) looks=${looks} ;; esac
  if [ -e "$folder/${archiveNames.gap}" ] || [ "$number" -gt ${pointInTimeRules.maxWaiting} ] || [ "$looks" -ge ${looks} ]; then
    : > "$folder/${archiveNames.gap}"
    sync "$folder/${archiveNames.gap}" "$folder"
    exit 0
  fi
  looks=$((looks + 1))
  sleep ${lookSeconds}
done
cp --preserve=timestamps -- "$1" "$folder/${archiveNames.draft}"
sync "$folder/${archiveNames.draft}"
mv -T -- "$folder/${archiveNames.draft}" "$folder/$2"
sync "$folder"
`

/** Nothing is retained: the setting is off. */
export const noArchiveScript = 'exit 0\n'

/** Gets a WAL file (name, path) from the host, which watches what is wanted. Names of other files do not exist. */
export const fetchScript = `\
set -eu
case "$1" in ${walName}) ;; *) exit 1 ;; esac
folder=${recoveryPlace}/${recoveryNames.wal}
printf %s "$1" > "$folder/${recoveryNames.wanted}.new"
mv -T "$folder/${recoveryNames.wanted}.new" "$folder/${recoveryNames.wanted}"
until [ -e "$folder/$1" ]; do
  if [ -e "$folder/$1${recoveryNames.missing}" ]; then exit 1; fi
  sleep 0.02
done
exec cp -- "$folder/$1" "$2"
`
