/** Max concurrent tasks of a kind on one host, and of one account; the others wait. */
export interface SlotLimits {
  atOnce: number
  perSubject: number
}

/** Commands and undo steps. They are short, and never wait for long tasks. */
export const commandSlots: SlotLimits = { atOnce: 100, perSubject: 20 }

/** A health gate costs little except time, which depends on the program. */
export const gateSlots: SlotLimits = { atOnce: 200, perSubject: 10 }

/** Unpacking, placing and starting new versions: work for disk and engine, and waiting for images. */
export const releaseSlots: SlotLimits = { atOnce: 20, perSubject: 5 }

/**
 * Fetches and install steps, which may take many minutes: an account may use all slots but one, so that other accounts can build
 * alongside install steps that never end. Accounts take turns with the only slot of a host.
 */
export const buildSlotLimits = (slots: number): SlotLimits => ({ atOnce: slots, perSubject: Math.max(1, slots - 1) })

/** Timeout of an install step. */
export const installSeconds = 15 * 60

/**
 * Snapshots, restores and drills that a host copies at a time. An account has one of them, so that whatever one account copies, and for
 * however long, another slot goes round among the others.
 */
export const snapshotsAtOnce = 2

/** How the step of an operation begins that waits for one of them. */
export const snapshotSlotWait = 'waiting for its host'

/** Logs that are read for the API: the engine returns up to 10 MB of each, of which the host uses the end. */
export const logSlots: SlotLimits = { atOnce: 6, perSubject: 2 }

/** Max tasks that one worker accepts; those without a slot wait there at no cost. */
export const tasksAtOnce = 1000

/** How long a command waits for an image that is being pulled, in seconds; the pull continues after that. */
export const commandImageSeconds = 24

/** Pulls of images: max concurrent ones; one without progress for `silentSeconds`, or longer than `seconds`, is aborted. */
export const imagePulls = { atOnce: 3, silentSeconds: 90, seconds: 15 * 60 }
