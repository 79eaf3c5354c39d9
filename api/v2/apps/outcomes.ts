import type { Notifications } from '../../../db/notifications.ts'
import { RowNotifications } from '../../pipeline/row-notifications.ts'

/** Waits for the end of operations. */
export class Outcomes extends RowNotifications {
  constructor(notifications: Notifications) {
    super(notifications, 'operations')
  }
}
