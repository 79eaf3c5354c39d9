import type { MailTemplate } from './template.ts'

/** An application without a good snapshot for some days. */
export type AppSnapshotsFailing = { app: string; days: number }

export const appSnapshotsFailing: MailTemplate<AppSnapshotsFailing> = {
  'pt-BR': ({ app, days }) => ({
    subject: `Faltam snapshots de ${app}`,
    text: `Há ${days} dias nenhum snapshot da sua aplicação "${app}" é concluído.

A aplicação em si não é afetada, e o Berth continua tentando. Se ela tiver centenas de milhares de arquivos, apague os que não forem necessários; se reescrever grandes arquivos o tempo todo, grave menos ou pare-a por um momento. Em outros casos, fale com o suporte. Até lá, faça você mesmo uma cópia dos arquivos importantes.`,
  }),
  'en-US': ({ app, days }) => ({
    subject: `Snapshots of ${app} are missing`,
    text: `For ${days} days, no snapshot of your application "${app}" has been completed.

The application itself is not affected, and Berth keeps retrying. If it has hundreds of thousands of files, delete those that it does not need; if it constantly rewrites large files, let it write less, or stop it for a while. Otherwise contact support. Until then, download the files that matter to you yourself.`,
  }),
  'es-ES': ({ app, days }) => ({
    subject: `Faltan snapshots de ${app}`,
    text: `Desde hace ${days} días no se completa ningún snapshot de tu aplicación «${app}».

La aplicación en sí no está afectada, y se sigue intentando. Si tiene cientos de miles de archivos, borra los que no necesite; si reescribe archivos grandes sin parar, haz que escriba menos o detenla un rato. Si no, contacta con el soporte. Hasta entonces, haz tú una copia de los archivos importantes.`,
  }),
  'zh-CN': ({ app, days }) => ({
    subject: `${app} 缺少快照`,
    text: `您的应用“${app}”已有 ${days} 天未能成功创建快照。

应用本身不受影响，系统会继续尝试。如果应用有数十万个文件，请删除不需要的文件；如果它不断改写大文件，请减少写入或暂时停止应用。其他情况请联系支持人员。在此之前，请自行备份重要文件。`,
  }),
  'ja-JP': ({ app, days }) => ({
    subject: `${app} のスナップショットが作成できていません`,
    text: `${days} 日間、アプリケーション「${app}」のスナップショットが完了していません。

アプリケーション自体に影響はなく、Berth は引き続き作成を試みます。ファイルが数十万個ある場合は、不要なものを削除してください。大きなファイルを常に書き換えている場合は、書き込みを減らすか、しばらく停止してください。それ以外の場合はサポートにご連絡ください。それまでは、大切なファイルをご自身でバックアップしてください。`,
  }),
  'fr-FR': ({ app, days }) => ({
    subject: `Il manque des instantanés de ${app}`,
    text: `Depuis ${days} jours, aucun instantané de votre application « ${app} » n'a abouti.

L'application elle-même n'est pas touchée, et les essais continuent. Si elle a des centaines de milliers de fichiers, supprimez ceux qui sont inutiles ; si elle réécrit sans cesse de gros fichiers, faites-la écrire moins ou arrêtez-la un moment. Sinon, contactez le support. D'ici là, sauvegardez vous-même les fichiers importants.`,
  }),
  'de-DE': ({ app, days }) => ({
    subject: `${app} fehlen Snapshots`,
    text: `Seit ${days} Tagen ist kein Snapshot Ihrer Anwendung „${app}“ gelungen.

Die Anwendung selbst ist nicht betroffen, und Berth versucht es weiter. Hat sie Hunderttausende Dateien, löschen Sie die, die sie nicht braucht; schreibt sie ständig große Dateien neu, lassen Sie sie weniger schreiben, oder halten Sie sie eine Weile an. Andernfalls wenden Sie sich an den Support. Sichern Sie bis dahin wichtige Dateien selbst.`,
  }),
  'it-IT': ({ app, days }) => ({
    subject: `Mancano snapshot di ${app}`,
    text: `Da ${days} giorni nessuno snapshot della tua applicazione "${app}" viene completato.

L'applicazione in sé non è interessata, e i tentativi continuano. Se ha centinaia di migliaia di file, elimina quelli che non servono; se riscrive di continuo file grandi, falla scrivere meno o fermala per un po'. Altrimenti contatta l'assistenza. Fino ad allora, salva tu i file importanti.`,
  }),
}

/** A database without a good snapshot for some days. */
export type DatabaseSnapshotsFailing = { database: string; days: number }

export const databaseSnapshotsFailing: MailTemplate<DatabaseSnapshotsFailing> = {
  'pt-BR': ({ database, days }) => ({
    subject: `Faltam snapshots do banco de dados ${database}`,
    text: `Há ${days} dias nenhum snapshot do seu banco de dados "${database}" é concluído.

O banco de dados em si não é afetado, e o Berth continua tentando. Se ele estiver parado por um erro, ou sem espaço em disco, resolva isso primeiro; se não, fale com o suporte. Até lá, faça você mesmo uma cópia dos dados importantes.`,
  }),
  'en-US': ({ database, days }) => ({
    subject: `Snapshots of the database ${database} are missing`,
    text: `For ${days} days, no snapshot of your database "${database}" has been completed.

The database itself is not affected, and Berth keeps retrying. If it is down because of an error, or has no disk space left, resolve that first; otherwise contact support. Until then, export the data that matter to you yourself.`,
  }),
  'es-ES': ({ database, days }) => ({
    subject: `Faltan snapshots de la base de datos ${database}`,
    text: `Desde hace ${days} días no se completa ningún snapshot de tu base de datos «${database}».

La base de datos en sí no está afectada, y se sigue intentando. Si está detenida por un error, o no le queda espacio en disco, resuélvelo primero; si no, contacta con el soporte. Hasta entonces, haz tú una copia de los datos importantes.`,
  }),
  'zh-CN': ({ database, days }) => ({
    subject: `数据库 ${database} 缺少快照`,
    text: `您的数据库“${database}”已有 ${days} 天未能成功创建快照。

数据库本身不受影响，系统会继续尝试。如果数据库因错误停止运行，或者磁盘空间已满，请先解决该问题；否则请联系支持人员。在此之前，请自行备份重要数据。`,
  }),
  'ja-JP': ({ database, days }) => ({
    subject: `データベース ${database} のスナップショットが作成できていません`,
    text: `${days} 日間、データベース「${database}」のスナップショットが完了していません。

データベース自体に影響はなく、Berth は引き続き作成を試みます。エラーで停止している場合やディスクの空きがない場合は、先にそれを解決してください。それ以外の場合はサポートにご連絡ください。それまでは、大切なデータをご自身でバックアップしてください。`,
  }),
  'fr-FR': ({ database, days }) => ({
    subject: `Il manque des instantanés de la base de données ${database}`,
    text: `Depuis ${days} jours, aucun instantané de votre base de données « ${database} » n'a abouti.

La base de données elle-même n'est pas touchée, et les essais continuent. Si elle est à l'arrêt à cause d'une erreur, ou si son disque est plein, réglez cela d'abord ; sinon, contactez le support. D'ici là, sauvegardez vous-même les données importantes.`,
  }),
  'de-DE': ({ database, days }) => ({
    subject: `Der Datenbank ${database} fehlen Snapshots`,
    text: `Seit ${days} Tagen ist kein Snapshot Ihrer Datenbank „${database}“ gelungen.

Die Datenbank selbst ist nicht betroffen, und Berth versucht es weiter. Steht sie wegen eines Fehlers still, oder ist ihre Festplatte voll, beheben Sie das zuerst; andernfalls wenden Sie sich an den Support. Sichern Sie bis dahin wichtige Daten selbst.`,
  }),
  'it-IT': ({ database, days }) => ({
    subject: `Mancano snapshot del database ${database}`,
    text: `Da ${days} giorni nessuno snapshot del tuo database "${database}" viene completato.

Il database in sé non è interessato, e i tentativi continuano. Se è fermo per un errore, o non ha più spazio su disco, risolvi prima questo; altrimenti contatta l'assistenza. Fino ad allora, esporta tu i dati importanti.`,
  }),
}
