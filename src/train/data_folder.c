/*
 * images: one folder per class, one file per picture. Names are kept in memory; pictures are read
 * on demand.
 */
#include "base/fail.h"
#include "base/memory.h"
#include "train/data_internal.h"

#include <neap/text.h>

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

typedef neap_status picture_reader(neap_picture *picture, neap_allocator *allocator,
                                   const char *path, neap_diag *diag);

/*
 * Formats that are read, and picture formats that are not; files with other suffixes are not
 * pictures.
 */
static const struct {
    const char *suffix;
    picture_reader *read;
} suffixes[] = {
    {".png", neap_picture_read_png},
    {".ppm", neap_picture_read_pnm},
    {".pgm", neap_picture_read_pnm},
    {".pnm", neap_picture_read_pnm},
    {".jpg", NULL},
    {".jpeg", NULL},
    {".gif", NULL},
    {".bmp", NULL},
    {".pbm", NULL},
    {".tif", NULL},
    {".tiff", NULL},
    {".webp", NULL},
};

/* True for the name of a picture; *read is set to its reader, or NULL. */
static bool is_picture(const char *name, picture_reader **read)
{
    const char *dot = strrchr(name, '.');
    for (size_t i = 0; dot && i < sizeof suffixes / sizeof *suffixes; i++)
        if (strcasecmp(dot, suffixes[i].suffix) == 0) {
            *read = suffixes[i].read;
            return true;
        }
    return false;
}

void neap_data_folder_close(neap_dataset *dataset)
{
    neap_data_folder *f = &dataset->folder;
    NEAP_DELETE(dataset->allocator, f->class_capacity, f->classes);
    NEAP_DELETE(dataset->allocator, f->file_capacity, f->files);
}

/* ---- The index ---- */

static int by_name(const void *a, const void *b)
{
    return strcmp(((const neap_data_name *)a)->name, ((const neap_data_name *)b)->name);
}

/* Whether an entry of a folder belongs to the list; may fail. */
typedef neap_status entry_filter(const char *folder, const char *path, const char *name,
                                 bool *belongs, neap_diag *diag);

/* Appends the names of a folder that pass the filter, in order. */
static neap_status list_folder(neap_dataset *dataset, const char *folder, uint32_t class_index,
                               entry_filter *filter, neap_data_name **names, size_t *count,
                               size_t *capacity, neap_diag *diag)
{
    neap_status status = NEAP_OK;
    size_t first = *count;
    neap_text path;
    DIR *entries = opendir(folder);
    if (!entries)
        return neap_fail(diag, NEAP_IO, "cannot read folder %s: %s", folder, strerror(errno));
    neap_text_init(&path, dataset->allocator);
    for (;;) {
        errno = 0;
        const struct dirent *entry = readdir(entries);
        if (!entry && errno != 0)
            status = neap_fail(diag, NEAP_IO, "cannot read folder %s: %s", folder, strerror(errno));
        if (!entry)
            break;
        bool belongs = false;
        if (entry->d_name[0] == '.')
            continue;
        path.length = 0;
        neap_text_puts(&path, folder);
        neap_text_putc(&path, '/');
        neap_text_puts(&path, entry->d_name);
        status = path.status != NEAP_OK ? neap_fail_no_memory(diag)
                                        : filter(folder, path.text, entry->d_name, &belongs, diag);
        if (status == NEAP_OK && belongs)
            status = NEAP_RESERVE(dataset->allocator, *count + 1, names, capacity, diag);
        if (status != NEAP_OK)
            break;
        if (!belongs)
            continue;
        neap_data_name *name = &(*names)[*count];
        name->name = neap_arena_text(&dataset->arena, entry->d_name, strlen(entry->d_name));
        name->class_index = class_index;
        if (!name->name) {
            status = neap_fail_no_memory(diag);
            break;
        }
        ++*count;
    }
    closedir(entries);
    neap_text_clear(&path);
    if (status == NEAP_OK && *count > first)
        qsort(*names + first, *count - first, sizeof **names, by_name);
    return status;
}

static neap_status is_class(const char *folder, const char *path, const char *name, bool *belongs,
                            neap_diag *diag)
{
    struct stat info;
    picture_reader *read;
    *belongs = stat(path, &info) == 0 && S_ISDIR(info.st_mode);
    if (!*belongs && is_picture(name, &read))
        return neap_fail(diag, NEAP_INVALID,
                         "%s: this picture has no class; put it into a folder of %s named "
                         "after its class",
                         path, folder);
    return NEAP_OK;
}

static neap_status is_sample(const char *folder, const char *path, const char *name, bool *belongs,
                             neap_diag *diag)
{
    picture_reader *read = NULL;
    *belongs = is_picture(name, &read);
    if (*belongs && !read)
        return neap_fail(diag, NEAP_INVALID,
                         "%s: this picture format is not supported; convert those in %s to .png or "
                         ".ppm and remove them",
                         path, folder);
    return NEAP_OK;
}

static neap_status list_classes(neap_dataset *dataset, neap_diag *diag)
{
    neap_data_folder *f = &dataset->folder;
    neap_status status = list_folder(dataset, f->path, 0, is_class, &f->classes, &f->n_classes,
                                     &f->class_capacity, diag);
    if (status != NEAP_OK)
        return status;
    if (f->n_classes == 0)
        return neap_fail(diag, NEAP_INVALID, "%s: it has no folders; each class needs one",
                         f->path);
    if (dataset->shape.classes != 0 && f->n_classes > (uint64_t)dataset->shape.classes)
        return neap_fail(diag, NEAP_INVALID,
                         "%s: %zu classes (folders), but the network has %lld; give it more",
                         f->path, f->n_classes, (long long)dataset->shape.classes);
    return NEAP_OK;
}

static neap_status list_files(neap_dataset *dataset, neap_diag *diag)
{
    neap_data_folder *f = &dataset->folder;
    for (size_t i = 0; i < f->n_classes; i++) {
        size_t before = f->n_files;
        const char *path = neap_data_join(dataset, f->path, f->classes[i].name);
        if (!path)
            return neap_fail_no_memory(diag);
        neap_status status = list_folder(dataset, path, (uint32_t)i, is_sample, &f->files,
                                         &f->n_files, &f->file_capacity, diag);
        if (status != NEAP_OK)
            return status;
        if (f->n_files == before)
            return neap_fail(diag, NEAP_INVALID,
                             "%s: no .png, .ppm, .pgm or .pnm picture in it; fill the folder or "
                             "remove it",
                             path);
    }
    return NEAP_OK;
}

neap_status neap_data_folder_open(neap_dataset *dataset, const char *folder, neap_diag *diag)
{
    neap_data_folder *f = &dataset->folder;
    int64_t label;
    f->path = neap_arena_text(&dataset->arena, folder, strlen(folder));
    if (!f->path)
        return neap_fail_no_memory(diag);
    neap_status status = list_classes(dataset, diag);
    if (status == NEAP_OK)
        status = list_files(dataset, diag);
    if (status == NEAP_OK)
        status = neap_data_folder_read(dataset, 0, &label, diag);
    if (status != NEAP_OK)
        return status;
    dataset->count = (int64_t)f->n_files;
    neap_data_default_shape(dataset, dataset->picture.channels, dataset->picture.height,
                            dataset->picture.width, (int64_t)f->n_classes);
    return NEAP_OK;
}

/* ---- One picture ---- */

neap_status neap_data_folder_read(neap_dataset *dataset, int64_t index, int64_t *label,
                                  neap_diag *diag)
{
    const neap_data_folder *f = &dataset->folder;
    const neap_data_name *file = &f->files[index];
    picture_reader *read = NULL;
    neap_text path;
    *label = file->class_index;
    neap_text_init(&path, dataset->allocator);
    neap_text_puts(&path, f->path);
    neap_text_putc(&path, '/');
    neap_text_puts(&path, f->classes[file->class_index].name);
    neap_text_putc(&path, '/');
    neap_text_puts(&path, file->name);
    neap_status status = path.status;
    if (status != NEAP_OK)
        neap_fail_no_memory(diag);
    else if (is_picture(file->name, &read) && read)
        status = read(&dataset->picture, dataset->allocator, path.text, diag);
    neap_text_clear(&path);
    return status;
}
